//! What publishing and following cost at the rate of a large cluster: processor time of the
//! follower, of the publisher and of the server, each a process of its own.
//!
//! `cargo bench -p nats`; `[RATE [SIZE [SECONDS]]]` after `--`: records/s, bytes, seconds.

#![allow(clippy::print_stdout, reason = "its figures are its purpose")]

use std::process::{Command, Stdio};
use std::time::Duration;

use nats::{Bytes, Followed, NatsClient, NatsConfig};
use testing::NatsServer;
use tokio::time::{Instant, interval};

/// Publishes under way at once: 16 nodes with one each.
const IN_FLIGHT: usize = 16;

/// A tick of the processor time in /proc (USER_HZ, 100 on every Linux).
const TICK: Duration = Duration::from_millis(10);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let first = arguments.next();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    if first.as_deref() == Some("publish") {
        let rest: Vec<String> = arguments.collect();
        let number = |index: usize| rest[index].parse().expect("a number");
        runtime.block_on(publish(&rest[0], number(1), number(2), number(3)));
        return;
    }
    let mut numbers =
        first.into_iter().chain(arguments).map(|text| text.parse().expect("a number"));
    let given: Vec<u64> = numbers.by_ref().collect();
    let runs: &[[u64; 3]] = match given[..] {
        [] => &[[16_000, 250, 10], [1_000, 4_000, 10], [100, 40_000, 10]],
        _ => {
            &[[given[0], given.get(1).copied().unwrap_or(250), given.get(2).copied().unwrap_or(10)]]
        }
    };
    for &[rate, size, seconds] in runs {
        runtime.block_on(run(rate, size, seconds));
    }
}

async fn run(rate: u64, size: u64, seconds: u64) {
    let Some(program) = testing::nats_current() else { return };
    let server = NatsServer::start(&program);
    let nats =
        NatsClient::connect(NatsConfig::new("bench", [server.url()])).await.expect("it connects");
    let log = nats.make_log(1).await.expect("a log");
    let mut follower = log.follow(1);
    let (own, of_server) = (processor_time("self"), processor_time(&server.pid().to_string()));
    let mut publisher = Command::new(std::env::current_exe().expect("our own path"));
    publisher.args(["publish", &server.url()]);
    publisher.args([rate, size, seconds].map(|number| number.to_string()));
    let mut publisher = publisher.stdin(Stdio::null()).spawn().expect("it starts");
    let total = rate * seconds;
    let mut heard = 0;
    let mut waiting = Vec::new();
    let start = Instant::now();
    while heard < total {
        assert!(follower.next_many(&mut waiting, 64).await > 0, "the follower has ended");
        for followed in waiting.drain(..) {
            let Followed::Record(record) = followed else { panic!("{followed:?}") };
            heard += 1;
            assert_eq!(record.sequence, heard);
        }
    }
    let elapsed = start.elapsed();
    let own = processor_time("self") - own;
    let of_server = processor_time(&server.pid().to_string()) - of_server;
    publisher.wait().expect("it ends");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / total as f64;
    println!(
        "{rate} records/s of {size} bytes: {total} in {:.1} s; one costs the follower {:.1} us \
         and the server {:.1} us of processor time",
        elapsed.as_secs_f64(),
        each(own),
        each(of_server)
    );
}

async fn publish(url: &str, rate: u64, size: u64, seconds: u64) {
    let nats = NatsClient::connect(NatsConfig::new("bench", [url])).await.expect("it connects");
    let log = nats.find_log(1).await.expect("a log");
    let record = Bytes::from(vec![7; usize::try_from(size).expect("a size")]);
    let own = processor_time("self");
    let (sender, numbers) = tokio::sync::mpsc::channel::<u64>(1);
    let numbers = std::sync::Arc::new(tokio::sync::Mutex::new(numbers));
    let worker = |_| {
        let (numbers, log, record) = (numbers.clone(), log.clone(), record.clone());
        tokio::spawn(async move {
            loop {
                let Some(number) = numbers.lock().await.recv().await else { return };
                let deadline = Instant::now() + Duration::from_secs(10);
                let id = format!("a.{number}");
                let published = log.publish_until(&id, "e", record.clone(), deadline).await;
                published.expect("it is in the log");
            }
        })
    };
    let workers: Vec<_> = (0..IN_FLIGHT).map(worker).collect();
    let mut pace = interval(Duration::from_millis(1));
    let start = Instant::now();
    let mut sent = 0;
    while sent < rate * seconds {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due.min(rate * seconds) {
            sender.send(sent).await.expect("there are workers");
            sent += 1;
        }
        pace.tick().await;
    }
    drop(sender);
    for worker in workers {
        worker.await.expect("it ends well");
    }
    let own = (processor_time("self") - own).as_secs_f64() * 1e6 / sent as f64;
    let latencies = nats.counts().latencies;
    let mean = latencies.sum.as_secs_f64() * 1e3 / sent as f64;
    println!("publishing: {own:.1} us of processor time each, {mean:.2} ms at the mean");
}

/// Processor time of a process so far, of user and system.
fn processor_time(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    // The name of the program, in parentheses, may have blanks.
    let rest = stat.rsplit_once(')').expect("a name").1;
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: u32 = ticks.map(|ticks| ticks.parse::<u32>().expect("a number")).sum();
    TICK * ticks
}
