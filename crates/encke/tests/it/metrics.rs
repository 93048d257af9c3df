//! `/stats` and `/metrics`: the same figures, and true ones.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Server, get};

/// A server at rest after some of everything.
fn busy_server() -> (Server, Vec<crate::harness::Stream>) {
    let server = Server::start(&["--workers=3"]);
    server.api.subscribe("a", "rj");
    server.api.subscribe("b", "rj");
    let mut streams: Vec<_> = ["a", "b", "c", "d"].map(|id| server.listener(id)).into();
    streams.push(server.stream("/stream/a", "text/event-stream"));
    streams.push(server.stream("/test/b", "*/*"));
    (0..10).for_each(|n| assert_eq!(server.api.send("rj", n), 4));
    assert_eq!(server.api.send("nobody", 1), 0);
    assert_eq!(server.ask(get("/nowhere", &[])).head().status, 404);
    streams.remove(3).wire.reset();
    drop(streams.remove(2));
    server.wait_open(4);
    (server, streams)
}

#[test]
fn stats_tell_what_happened_by_worker_and_in_sum() {
    let (server, _streams) = busy_server();
    let stats = server.api.stats();
    for (member, expected) in [
        ("events", 11),
        ("deliveries", 40),
        ("dropped", 0),
        ("subscriptions", 2),
        ("ids_online", 2),
        ("connections_open", 4),
        ("connections_opened", 7),
    ] {
        assert_eq!(stats[member], expected, "{member}");
    }
    let closed = &stats["connections_closed"];
    for (reason, expected) in [("client_closed", 1), ("client_reset", 1), ("bad_request", 1)] {
        assert_eq!(closed[reason], expected, "{reason} of {closed}");
    }
    let streams = &stats["streams_open"];
    assert_eq!(
        (&streams["sse"], &streams["ndjson"], &streams["classic"]),
        (&1.into(), &2.into(), &1.into())
    );
    assert!(stats["resident_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(stats["uptime_seconds"].as_f64().unwrap() > 0.0);
    let duration = &stats["send_duration"];
    let buckets = duration["buckets"].as_array().unwrap();
    let count: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(
        (&duration["count"], count),
        (&11.into(), 11),
        "each send took its time: {duration}"
    );
    assert!(duration["sum_seconds"].as_f64().unwrap() > 0.0);
    if let Some(bytes) = stats["kernel_socket_bytes"].as_u64() {
        assert!(bytes > stats["kernel_tcp_buffer_bytes"].as_u64().unwrap());
    }
    let workers = stats["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 3);
    for member in ["connections_open", "connections_opened", "deliveries", "sent_bytes", "writes"] {
        let sum: u64 = workers.iter().map(|worker| worker[member].as_u64().unwrap()).sum();
        assert_eq!(stats[member], sum, "{member}");
    }
}

/// The samples of a text in Prometheus' format, by name and sorted labels; checks the format on the
/// way.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let (mut family, mut kind) = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{line}");
            family = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').unwrap();
            assert_eq!(name, family, "help and type of a family stand together");
            kind = of;
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let member = name.strip_prefix(family).unwrap_or("another's");
            let members: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(members.contains(&member), "samples stand with their family: {line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            let before = samples.insert(series.to_owned(), value.parse().unwrap());
            assert_eq!(before, None, "{series} stands twice");
        }
    }
    samples
}

/// The sum of a family's samples whose labels contain `label`.
fn sum(samples: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    let of_family = |series: &str| {
        series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
    };
    let found: Vec<_> =
        samples.iter().filter(|(series, _)| of_family(series) && series.contains(label)).collect();
    assert!(!found.is_empty(), "no {name} with {label}");
    found.into_iter().map(|(_, value)| value).sum()
}

#[test]
fn metrics_are_in_prometheus_format_and_agree_with_stats() {
    let (server, _streams) = busy_server();
    let answer = server.api.get("/metrics");
    let content_type = answer.head.field("content-type").unwrap();
    assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
    let samples = samples(&answer.body);
    let stats = server.api.stats();
    let number = |value: &Value| value.as_f64().unwrap();
    for (name, member) in [
        ("encke_connections_open", "connections_open"),
        ("encke_connections_opened_total", "connections_opened"),
        ("encke_deliveries_total", "deliveries"),
        ("encke_deliveries_dropped_total", "dropped"),
        ("encke_events_total", "events"),
        ("encke_ids_online", "ids_online"),
        ("encke_subscriptions", "subscriptions"),
        ("encke_sent_bytes_total", "sent_bytes"),
        ("encke_writes_total", "writes"),
        ("encke_worker_full", "full"),
        ("encke_accept_shortages_total", "shortages"),
    ] {
        assert_eq!(sum(&samples, name, ""), number(&stats[member]), "{name}");
    }
    for (reason, count) in stats["connections_closed"].as_object().unwrap() {
        let label = format!("reason=\"{reason}\"");
        assert_eq!(sum(&samples, "encke_connections_closed_total", &label), number(count));
    }
    for (transport, count) in stats["streams_open"].as_object().unwrap() {
        let label = format!("transport=\"{transport}\"");
        assert_eq!(sum(&samples, "encke_streams_open", &label), number(count));
    }
    let duration = &stats["send_duration"];
    let took = sum(&samples, "encke_send_duration_seconds_sum", "");
    assert_eq!(sum(&samples, "encke_send_duration_seconds_count", ""), number(&duration["count"]));
    assert_eq!(took, number(&duration["sum_seconds"]));
    assert!(sum(&samples, "encke_kernel_tcp_buffer_bytes", "") >= 0.0);
    // They only grow, and the metrics were asked first.
    for (name, member) in [
        ("encke_machine_stolen_seconds_total", "stolen_seconds"),
        ("encke_machine_memory_stalled_seconds_total", "memory_stalled_seconds"),
    ] {
        let (told, now) = (samples.get(name), stats[member].as_f64());
        assert!(told.copied() <= now && told.is_some() == now.is_some(), "{name}: {told:?}");
    }
    let whole = sum(&samples, "process_resident_memory_bytes", "");
    for part in ["encke_resident_anonymous_bytes", "encke_resident_file_bytes"] {
        let bytes = sum(&samples, part, "");
        assert!(bytes > 1e5 && bytes < whole, "{part} {bytes} of {whole}");
    }
    assert!(sum(&samples, "process_start_time_seconds", "") > 1.7e9);
}

#[test]
fn process_is_told_as_prometheus_expects_it() {
    let server = Server::start(&["--workers=3"]);
    let before = samples(&server.api.get("/metrics").body);
    let streams: Vec<_> = (0..50).map(|_| server.listener("1")).collect();
    let connections: Vec<_> = (0..20).map(|_| server.api.another()).collect();
    connections.iter().for_each(|api| drop(api.get("/healthz")));
    let during = samples(&server.api.get("/metrics").body);
    for name in ["process_start_time_seconds", "process_max_fds"] {
        assert_eq!(before[name].to_bits(), during[name].to_bits(), "{name} does not move");
    }
    // The tables: 20 connections to the API in one, 50 streams in those of the workers.
    let more = during["process_open_fds"] - before["process_open_fds"];
    assert!((19.0..=21.0).contains(&more), "{more}: the one that asked before may just go");
    let workers = |samples| sum(samples, "encke_worker_open_fds", "");
    assert_eq!(workers(&during) - workers(&before), 50.0);
    assert!(before.contains_key("encke_worker_open_fds{worker=\"2\"}"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: f64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(during["process_max_fds"], soft);
    let fds = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    // Whoever counts them has some open.
    let difference = during["process_open_fds"] - fds as f64;
    assert!(difference.abs() <= 4.0, "{fds} descriptors: {difference}");
    drop(streams);
}

#[test]
fn turns_are_counted_by_how_long_they_take() {
    let (server, _streams) = busy_server();
    let stats = server.api.stats();
    let number = |value: &Value| value.as_f64().unwrap();
    for figures in stats["workers"].as_array().unwrap().iter().chain([&stats]) {
        let by_duration = figures["turns_by_microseconds"].as_object().unwrap();
        let turns: f64 = by_duration.values().map(number).sum();
        assert_eq!(turns, number(&figures["turns"]));
        assert!(by_duration.contains_key("64") && by_duration.contains_key("more"));
        let (all, longest) =
            (number(&figures["turn_seconds"]), number(&figures["turn_seconds_longest"]));
        // One may have ended between two looks.
        assert!(longest <= all && all <= longest * (turns + 1.0), "{longest} s of {all} s");
    }
    let samples = samples(&server.api.get("/metrics").body);
    let whole = |part: &str, label: &str| {
        sum(&samples, &format!("encke_turn_duration_seconds_{part}"), label)
    };
    assert!(whole("count", "") >= number(&stats["turns"]));
    assert_eq!(whole("bucket", "le=\"+Inf\""), whole("count", ""));
    assert!(whole("bucket", "le=\"0.000064\"") <= whole("bucket", "le=\"1.048576\""));
    let rounding = 1e-6;
    assert!(whole("sum", "") >= number(&stats["turn_seconds"]) - rounding);
    for (worker, figures) in stats["workers"].as_array().unwrap().iter().enumerate() {
        let label = format!("worker=\"{worker}\"");
        let longest = sum(&samples, "encke_turn_longest_seconds", &label);
        let before = number(&figures["turn_seconds_longest"]);
        assert!(longest >= before - rounding, "worker {worker}: {longest} s, before {before} s");
    }
    assert!(sum(&samples, "encke_turn_longest_seconds", "") > 0.0);
}
