//! The options of `serve`: their defaults, their bounds, and what they make of the engine.

use clap::Parser;
use engine::Settings;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArgs,
}

fn parse(args: &[&str]) -> ServeArgs {
    Line::try_parse_from([&["serve"], args].concat()).unwrap().serve
}

fn engine(args: &[&str], descriptors: u64) -> EngineConfig {
    let args = parse(args);
    let (settings, _) = live::settings(&args, &args);
    let engine = args.limits.engine(args.listen.address().unwrap(), 2, descriptors);
    EngineConfig { settings, ..engine }
}

#[test]
fn defaults_are_the_contract_s() {
    let args = parse(&[]);
    assert_eq!(args.listen.address(), "127.0.0.1:8000".parse().ok());
    assert_eq!(args.api.address(), "127.0.0.1:8001".parse().ok());
    assert_eq!(args.tls.tls_api.address(), None);
    let engine = engine(&[], 20_000);
    let Settings { origins, keepalive_ms, head_timeout_ms, .. } = engine.settings.clone();
    assert_eq!((engine.workers, keepalive_ms, head_timeout_ms), (2, 30_000, 10_000));
    assert_eq!(engine.settings, Settings { origins, ..Settings::default() });
    assert_eq!(engine.backlog_bytes_max, 65_536);
    assert_eq!(engine.history, HistoryLimits::default());
}

/// What a network may do without a word, and nothing is lost: from the last byte that came through
/// to the first that does again.
const SILENT_CUT: Duration = Duration::from_secs(90);
/// Within this time a client is to notice.
const NOTICED: Duration = Duration::from_secs(38);
/// When the npm package and `encke listen` take a silent stream for dead.
const CLIENT_SILENCE: Duration = Duration::from_secs(36);
/// A keep-alive may be as late: the server's clock, a packet sent twice, a slow network.
const KEEPALIVE_LATE: Duration = Duration::from_secs(5);
/// The longest wait of `encke listen` between two attempts, and a random part of the same length on
/// top; the npm package waits half as long.
const RETRY: Duration = Duration::from_secs(60);
/// How long an attempt may take that meets the silence, or the first one that does not.
const OPEN: Duration = Duration::from_secs(10);

#[test]
fn silence_of_ninety_seconds_is_noticed_in_time_and_is_no_gap() {
    let engine = engine(&[], 20_000);
    let keepalive = Duration::from_millis(engine.settings.keepalive_ms);
    assert!(keepalive + KEEPALIVE_LATE <= CLIENT_SILENCE, "a living stream is left");
    assert!(CLIENT_SILENCE <= NOTICED, "a dead stream is kept");
    let history = Duration::from_millis(engine.history.age_ms_max);
    assert!(SILENT_CUT + RETRY + OPEN <= history, "what was missed is forgotten");
    let one_a_second = history.as_secs() as usize;
    assert!(engine.history.events_max >= one_a_second, "{:?}", engine.history);
    // An event of 100 bytes counts for some 335: docs/operations.md.
    assert!(engine.history.bytes_max / 335 >= 1_042 * one_a_second, "{:?}", engine.history);

    assert_eq!(parse_seconds(crate::cli::listen::SILENCE), Ok(CLIENT_SILENCE));

    // And its help names the keep-alive that it is made for.
    let program = crate::cli::program();
    let listen = program.find_subcommand("listen").unwrap();
    let silence = listen.get_arguments().find(|arg| arg.get_id() == "silence").unwrap();
    let help = silence.get_long_help().unwrap().to_string();
    assert!(help.contains(&format!("every {} s", keepalive.as_secs())), "{help}");
}

#[test]
fn each_option_that_counts_at_once_changes_the_settings_or_is_the_program_s() {
    let mut names = vec!["api-host", "client-send", "grace", "log-level"];
    assert_ne!(engine(&["--client-send"], 1000).settings, engine(&[], 1000).settings);
    for (name, value) in [
        ("allow-origin", "https://a.test"),
        ("client-payload", "1"),
        ("client-send-rate", "1"),
        ("head-timeout", "1"),
        ("keepalive", "1"),
        ("max-connections-per-id", "1"),
        ("max-message", "512"),
        ("public-host", "a.test"),
    ] {
        let option = format!("--{name}={value}");
        assert_ne!(engine(&[&option], 1000).settings, engine(&[], 1000).settings, "{name}");
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(names, live::LIVE);
}

#[test]
fn workers_follow_cores_and_descriptors() {
    let million = engine(&["--max-connections=1000000"], 20_000);
    assert_eq!((million.workers, million.connections_max), (53, 1_000_000));
    assert_eq!(engine(&["--workers=3"], 20_000).workers, 3);
    let ten = engine(&["--max-connections=10", "--workers=1"], 20_000);
    assert_eq!(ten.connections_max, 10);
}

#[test]
fn limits_are_passed_on_as_they_are() {
    let given = [
        "--workers=3",
        "--max-connections=7",
        "--keepalive=0.25",
        "--head-timeout=1.5",
        "--max-backlog=1MiB",
        "--max-buffered=8MiB",
        "--max-ids-memory=9MiB",
        "--max-message=8KiB",
        "--websocket-deflate",
        "--gather-ms=40",
        "--history-events=7",
        "--history-seconds=0.5",
        "--history-bytes=1MiB",
        "--remember=room:*=1000,1h",
        "--remember=*=5,10s",
        "--allow-origin=https://a.test,https://b.test",
        "--api-host=a.test",
    ];
    for args in [&given[..], &[]] {
        let limits = parse(args).limits;
        let options = limits.options();
        let again = parse(&options.iter().map(String::as_str).collect::<Vec<_>>()).limits;
        assert_eq!(format!("{again:?}"), format!("{limits:?}"));
    }
    assert_eq!(parse(&[]).limits.with_capacity_for(9).max_connections, 9);
    assert_eq!(parse(&given).limits.with_capacity_for(9).max_connections, 7);
}

#[test]
fn what_clients_may_have_together_is_a_share_of_the_memory_unless_given() {
    let bounds = |args: &[&str]| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = parse(args).limits.within(256 << 20).engine(listen, 2, 1000);
        (config.buffered_bytes_max >> 20, config.ids_bytes_max >> 20)
    };
    assert_eq!(bounds(&[]), (64, 32));
    assert_eq!(bounds(&["--max-buffered=1GiB"]), (1024, 32));
    assert_eq!(bounds(&["--max-ids-memory=1MiB"]), (64, 1));
}

#[test]
fn wrong_values_are_refused() {
    for wrong in [
        "--listen=nowhere",
        "--max-backlog=1",
        "--head-timeout=0",
        "--public-url=push.example.org",
        "--keepalive=-1",
        "--workers=5000",
        "--remember=room:*",
        "--remember=room:*=0,1h",
    ] {
        assert!(Line::try_parse_from(["serve", wrong]).is_err(), "{wrong}");
    }
}
