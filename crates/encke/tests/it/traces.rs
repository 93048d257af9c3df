//! Traces of sends, at a real OpenTelemetry Collector, and at one that is none.

mod away;

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Program, Server, Socket, encke, read_answer, wait_for};
use crate::publish::request;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that takes OTLP over HTTP and prints what it got.
struct Collector {
    program: Program,
    url: String,
    /// All lines so far, as they came.
    lines: Vec<String>,
}

impl Collector {
    /// `None`, and the test is skipped, where there is none.
    fn start() -> Option<Collector> {
        let program = testing::tool("compat/collector/collector")?;
        let config = json!({
            "receivers": { "otlp": { "protocols": { "http": { "endpoint": "127.0.0.1:0" } } } },
            "exporters": { "stdout": null },
            "service": {
                "telemetry": { "metrics": { "level": "none" } },
                "pipelines": { "traces": { "receivers": ["otlp"], "exporters": ["stdout"] } },
            },
        });
        let program = Program::spawn(Command::new(program).arg(format!("--config=yaml:{config}")));
        wait_for("the collector is ready", || program.stderr().contains("Everything is ready"));
        let stderr = program.stderr();
        let (_, rest) = stderr.split_once("\"endpoint\": \"").unwrap();
        let url = format!("http://{}", rest.split('"').next().unwrap());
        Some(Collector { program, url, lines: Vec::new() })
    }

    fn option(&self) -> String {
        format!("--otlp={}", self.url)
    }

    /// All spans, once there are as many.
    fn spans(&mut self, count: usize) -> Vec<Value> {
        loop {
            let spans = self.lines.iter().flat_map(|line| spans_of(line)).collect::<Vec<_>>();
            if spans.len() >= count {
                assert_eq!(spans.len(), count, "{spans:#?}");
                return spans;
            }
            let line = self.program.line_within(DEADLINE);
            self.lines.push(line.unwrap_or_else(|why| panic!("{why}: {spans:#?}")));
        }
    }
}

/// The spans of a batch, each with its attributes as an object.
fn spans_of(line: &str) -> Vec<Value> {
    let batch: Value = serde_json::from_str(line).unwrap();
    let each = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
    let mut spans = Vec::new();
    for resource in each(&batch, "resourceSpans") {
        for scope in each(&resource, "scopeSpans") {
            for mut span in each(&scope, "spans") {
                span["attributes"] = attributes(&span["attributes"]);
                span["resource"] = attributes(&resource["resource"]["attributes"]);
                spans.push(span);
            }
        }
    }
    spans
}

fn attributes(list: &Value) -> Value {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let value = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap().clone();
        (attribute["key"].as_str().unwrap().to_owned(), value)
    };
    list.iter().map(value).collect::<serde_json::Map<_, _>>().into()
}

#[track_caller]
fn named<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(found.next().is_none(), "two of {name}: {spans:#?}");
    span
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().unwrap().parse().unwrap()
}

/// Checks that `spans`, in the order of their times, lie below `root` and side by side.
#[track_caller]
fn check_steps(root: &Value, steps: &[&Value]) {
    let mut before = time(root, "startTimeUnixNano");
    for step in steps {
        assert_eq!(step["traceId"], root["traceId"]);
        assert_eq!(step["parentSpanId"], root["spanId"]);
        assert!(time(step, "startTimeUnixNano") >= before, "{step}");
        before = time(step, "endTimeUnixNano");
        assert!(before >= time(step, "startTimeUnixNano"), "{step}");
    }
    assert!(before <= time(root, "endTimeUnixNano"), "{root}");
}

fn traceparent(sampled: bool) -> String {
    format!("Traceparent: 00-{TRACE}-{PARENT}-0{}\r\n", u8::from(sampled))
}

#[test]
fn send_is_a_part_of_its_callers_trace_and_says_nothing_of_anybody() {
    let Some(mut collector) = Collector::start() else { return };
    let server = Server::start(&[&collector.option()]);
    let _bob = server.listener("hidden-bob");
    server.api.subscribe("hidden-bob", "hidden-rj");
    let fields = format!(
        "Content-Type: application/json\r\nIdempotency-Key: hidden-key\r\n\
         Authorization: Bearer hidden-bearer\r\nTracestate: a=b\r\n{}",
        traceparent(true)
    );
    let body = json!({ "about": "hidden-rj", "data": "hidden-payload" }).to_string();
    let answer = server.api.post_with("/send", &fields, &body).ok();
    let spans = collector.spans(3);
    let root = named(&spans, "POST /send");
    assert_eq!(
        (root["traceId"].as_str(), root["parentSpanId"].as_str()),
        (Some(TRACE), Some(PARENT))
    );
    assert_eq!((&root["kind"], &root["traceState"]), (&json!(2), &json!("a=b")));
    let expected = json!({
        "http.request.method": "POST", "http.route": "/send", "url.path": "/send",
        "http.response.status_code": "200", "encke.delivered": "1", "encke.event": answer["id"],
    });
    assert_eq!(root["attributes"], expected);
    assert_eq!(root["resource"]["service.name"], "encke");
    assert_eq!(root["resource"]["service.version"], env!("CARGO_PKG_VERSION"));
    check_steps(root, &[named(&spans, "post"), named(&spans, "deliver")]);
    assert!(!collector.lines.concat().contains("hidden"), "{:?}", collector.lines);
    wait_for("what was sent is counted", || {
        let metrics = server.api.get("/metrics").body;
        metrics.contains("encke_trace_spans_total{outcome=\"sent\"} 3\n")
    });

    // The same once more: nothing is posted.
    server.api.post_with("/send", &fields, &body).ok();
    let spans = collector.spans(4);
    assert_eq!(spans[3]["attributes"]["encke.repeat"], true);
}

#[test]
fn caller_decides_whether_its_send_has_a_trace_and_the_ratio_where_it_does_not() {
    let Some(mut collector) = Collector::start() else { return };
    let all = Server::start(&[&collector.option(), "--otlp-service=all"]);
    let none = Server::start(&[&collector.option(), "--otlp-ratio=0", "--otlp-service=none"]);
    let json = "Content-Type: application/json\r\n";
    for server in [&all, &none] {
        for fields in [
            traceparent(false),
            traceparent(true),
            String::new(),
            "Traceparent: 00-1-1-01\r\n".to_owned(),
        ] {
            let body = r#"{"about":1,"data":2}"#;
            server.api.post_with("/send", &format!("{json}{fields}"), body).ok();
        }
    }
    let spans = collector.spans(4 * 3);
    let of = |service: &str| {
        let of = |span: &&Value| {
            span["name"] == "POST /send" && span["resource"]["service.name"] == service
        };
        spans.iter().filter(of).collect::<Vec<_>>()
    };
    assert_eq!(of("none").len(), 1);
    assert_eq!(of("none")[0]["traceId"], TRACE);
    let (theirs, own): (Vec<_>, Vec<_>) =
        of("all").into_iter().partition(|span| span["traceId"] == TRACE);
    assert_eq!((theirs.len(), own.len()), (1, 2));
    // Without a parent, or with one that is malformed.
    assert!(own.iter().all(|span| span["parentSpanId"].is_null()), "{own:?}");
    assert_ne!(own[0]["traceId"], own[1]["traceId"]);
}

#[test]
fn stream_of_sends_is_one_span_with_their_number_and_a_refused_send_has_its_status() {
    let Some(mut collector) = Collector::start() else { return };
    let server = Server::start(&[&collector.option()]);
    let _one = server.listener("1");
    let lines = "{\"about\":1,\"data\":1}\n{\"about\":1,\"data\":2}\nnonsense\n";
    assert_eq!(server.api.post_lines("/send", lines).body.lines().count(), 3);
    let spans = collector.spans(1);
    let root = named(&spans, "POST /send");
    for (name, value) in [
        ("encke.events", "2"),
        ("encke.refused", "1"),
        ("encke.delivered", "2"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(root["attributes"][name], value, "{name}");
    }
    server.api.post("/send", &json!({ "about": 1 })).problem(400);
    let spans = collector.spans(2);
    assert_eq!(spans[1]["attributes"]["http.response.status_code"], "400");
    // A caller's mistake is no error of the server.
    assert_eq!(spans[1]["attributes"]["error.type"], Value::Null);

    // A client leaves before its last line is whole.
    let mut wire = crate::harness::Wire::connect(server.api.address());
    wire.send(
        "POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
         Content-Length: 1000\r\n\r\n{\"about\":1,\"data\":3}\n",
    );
    wire.try_head().unwrap();
    drop(wire);
    let spans = collector.spans(3);
    assert_eq!(spans[2]["attributes"]["encke.events"], "1");
}

#[test]
fn send_of_a_node_shows_how_long_the_log_took() {
    let Some(mut collector) = Collector::start() else { return };
    let Some(program) = testing::nats_current() else { return };
    let nats = testing::NatsServer::start(&program);
    let url = format!("--nats={}", nats.url());
    let node = Server::start(&["--cluster=c", "--node=n1", &url, &collector.option()]);
    let _one = node.listener("1");
    node.wait_online("1", 1);
    assert_eq!(node.api.send("1", "x"), 1);
    let spans = collector.spans(3);
    let root = named(&spans, "POST /send");
    assert_eq!(root["resource"]["service.instance.id"], "n1");
    let (publish, deliver) = (named(&spans, "publish"), named(&spans, "deliver"));
    assert_eq!(publish["kind"], 4);
    check_steps(root, &[publish, deliver]);

    // A log that is stuck.
    nats.pause();
    node.api.post("/send", &json!({ "about": 1, "data": 2 })).problem(503);
    nats.resume();
    let spans = collector.spans(5).split_off(3);
    let (root, publish) = (named(&spans, "POST /send"), named(&spans, "publish"));
    check_steps(root, &[publish]);
    for span in [root, publish] {
        assert_eq!(span["attributes"]["error.type"], "503");
        assert_eq!(span["status"]["code"], 2);
    }
}

#[test]
fn send_of_a_client_begins_a_trace_whatever_the_client_says_of_one() {
    let Some(mut collector) = Collector::start() else { return };
    let server = Server::start(&[&collector.option(), "--client-send"]);
    let event = json!({ "about": 2, "data": "hidden" });
    let mut socket = Socket::open(server.listen(), "/stream/1");
    let sent = socket.ask(json!({ "send": event, "ref": 1 }));
    assert_eq!(sent["ok"]["delivered"], 0, "{sent}");
    let spans = collector.spans(3);
    let root = named(&spans, "send");
    assert!(root["parentSpanId"].is_null(), "{root}");
    check_steps(root, &[named(&spans, "post"), named(&spans, "deliver")]);
    let parent = traceparent(true);
    let mut wire = server.ask(request("/send", &[parent.trim_end()], &event.to_string()));
    assert_eq!(read_answer(&mut wire, "POST").unwrap().status(), 200);
    let spans = collector.spans(6).split_off(3);
    let root = named(&spans, "POST /send");
    assert!(root["traceId"] != TRACE && root["parentSpanId"].is_null(), "{root}");
    check_steps(root, &[named(&spans, "post"), named(&spans, "deliver")]);
    assert!(!collector.lines.concat().contains("hidden"), "{:?}", collector.lines);
}

#[test]
fn collector_is_named_by_the_variables_of_opentelemetry_too_and_its_headers_are_not_shown() {
    let print = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = encke(["config", "print"]);
        command.args(arguments).envs(variables.iter().copied());
        let printed = Program::run(&mut command);
        assert_eq!(printed.code(), Some(0), "{printed:?}");
        printed.stdout
    };
    let has = |text: &str, start: &str, end: &str| {
        text.lines().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has(&print(&[], &[]), "otlp = \"none\" ", "# default"));
    let standard = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret"),
        ("OTEL_SERVICE_NAME", "push"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
    ];
    let text = print(&[], &standard);
    assert!(has(&text, "otlp = \"http://a:4318\" ", "# OTEL_EXPORTER_OTLP_ENDPOINT"), "{text}");
    assert!(has(&text, "# otlp-headers = ", "# not shown, OTEL_EXPORTER_OTLP_HEADERS"), "{text}");
    assert!(has(&text, "otlp-service = \"push\" ", "# OTEL_SERVICE_NAME"), "{text}");
    assert!(has(&text, "otlp-sampler = \"traceidratio\" ", "# OTEL_TRACES_SAMPLER"), "{text}");
    assert!(has(&text, "otlp-ratio = \"0.25\" ", "# OTEL_TRACES_SAMPLER_ARG"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    let own = [standard[0], standard[1], ("ENCKE_OTLP", "none"), ("ENCKE_OTLP_HEADERS", "a=b")];
    let text = print(&[], &own);
    assert!(has(&text, "otlp = \"none\" ", "# ENCKE_OTLP"), "{text}");
    assert!(has(&text, "# otlp-headers = ", "# not shown, ENCKE_OTLP_HEADERS"), "{text}");
}

#[test]
fn url_that_is_none_of_a_collector_ends_the_start_with_a_sentence() {
    for (option, told) in [
        ("--otlp=localhost:4318", "write http://HOST:PORT"),
        ("--otlp=grpc://localhost:4317", "write http://HOST:PORT"),
        ("--otlp=http://me:s3cret@localhost", "--otlp-headers"),
        ("--otlp-headers=s3cret", "write NAME=VALUE"),
        ("--otlp-ratio=2", "a number from 0 to 1"),
        ("--otlp-sampler=some", "parentbased_traceidratio"),
    ] {
        let ended = Program::run(&mut encke(["serve", option]));
        assert_eq!(ended.code(), Some(2), "{option}: {ended:?}");
        assert!(ended.stderr.contains(told), "{option}: {ended:?}");
    }
    let mut command = encke(["serve"]);
    let ended = Program::run(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:s3cret@a"));
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("OTEL_EXPORTER_OTLP_ENDPOINT in the environment"), "{ended:?}");
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}
