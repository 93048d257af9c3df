//! The demo's load: everybody comes online, then events are sent, and each second is told.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use load::report::{FloodReport, RunReport, SpamReport, bytes, grouped};
use load::{Flood, FloodConfig, FloodSnapshot, Spam, SpamConfig};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::Demo;
use super::friends::Stored;
use super::measure::{Course, Moment, Opening};
use super::report::{DemoReport, GraphReport};
use super::server::ServerProcess;
use crate::cli::flood;

/// How long to wait for what is still on its way when the last event is sent.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(5);

const POLL_PERIOD: Duration = Duration::from_millis(50);
const POLLS_PER_LINE: u32 = 20;

/// The load on one server.
pub(super) struct Load<'a> {
    pub(super) demo: &'a Demo,
    pub(super) server: &'a mut ServerProcess,
    pub(super) stored: Stored,
    /// Memory of the machine in use before the demo did anything.
    pub(super) machine_bytes_before: u64,
}

impl Load<'_> {
    /// All of it. `None` when it was stopped before the first event was sent.
    pub(super) async fn run(mut self) -> Result<Option<DemoReport>> {
        let Some(empty) = self.moment().await? else { return Ok(None) };
        let Some((mut flood, opening)) = self.connect().await? else { return Ok(None) };
        let Some(idle) = self.moment().await? else { return Ok(None) };
        let mut course = Course {
            machine_bytes_before: self.machine_bytes_before,
            empty,
            idle,
            end: idle,
            resident_bytes_max: idle.server.resident_bytes,
            machine_bytes_max: idle.machine_bytes,
            opening,
        };
        let mut spam = self.start_sending().await?;
        self.watch(&mut flood, &mut spam, &mut course).await?;
        let spam = SpamReport::from(&spawn_blocking(move || spam.finish()).await?);
        let delivered = spam.delivered;
        let flood = spawn_blocking(move || {
            flood.wait_until(ARRIVAL_PATIENCE, |totals| totals.stamped >= delivered);
            flood
        });
        let flood = flood.await?;
        self.look(&mut course).await?;
        let flood = FloodReport::from(&spawn_blocking(move || flood.finish()).await??);
        let graph = GraphReport {
            users: self.demo.args.users,
            subscriptions: self.stored.subscriptions,
            mean_audience: self.mean_audience(),
        };
        Ok(Some(DemoReport::new(RunReport::new(flood, spam), graph, &course)))
    }

    /// The moment before a step. `None` when it was stopped first.
    async fn moment(&mut self) -> Result<Option<Moment>> {
        self.demo.unless_stopped(Moment::now(self.server)).await.transpose()
    }

    /// Brings everybody online. `None` when it was stopped first.
    async fn connect(&mut self) -> Result<Option<(Flood, Opening)>> {
        let args = &self.demo.args;
        let users = u64::from(args.users);
        let config = FloodConfig {
            url: format!("http://{}{}", self.server.listen(), args.transport.path()),
            transport: args.transport.into(),
            users: args.users,
            ..FloodConfig::default()
        };
        let started = Instant::now();
        let mut flood = flood::start(config)?;
        let mut opening = Opening::default();
        let mut polls = Polls::new();
        let mut before = (started, 0);
        let live = self.demo.live();
        let totals = loop {
            let totals = flood.totals();
            let now = (Instant::now(), totals.opened);
            opening.push(now.0.duration_since(started), now.1);
            if totals.opened + totals.failed_total() >= users {
                break totals;
            }
            self.server.expect_alive()?;
            if polls.line_is_due() {
                let seconds = now.0.duration_since(before.0).as_secs_f64().max(1e-3);
                live.set(format!(
                    "connecting {} of {} ({}/s)  server {}",
                    grouped(now.1),
                    grouped(users),
                    grouped(((now.1 - before.1) as f64 / seconds).round() as u64),
                    bytes(self.server.resident_bytes()),
                ))?;
                before = now;
            }
            if self.demo.unless_stopped(polls.next()).await.is_none() {
                return Ok(None);
            }
        };
        drop(live);
        if let Some(failure) = flood.snapshot().first_failure {
            bail!("{} streams did not open: {failure}", grouped(totals.failed_total()));
        }
        let last = Duration::from_nanos(totals.opened_after_ns);
        opening.push(last, totals.opened);
        let (open, [rate, ..]) = (grouped(totals.open()), opening.rates());
        self.demo.note(&format!(
            "online   {open} listeners after {:.1} s, {}/s",
            last.as_secs_f64(),
            grouped(rate.round() as u64)
        ))?;
        Ok(Some((flood, opening)))
    }

    fn mean_audience(&self) -> f64 {
        self.stored.mean_audience(self.demo.args.users)
    }

    async fn start_sending(&self) -> Result<Spam> {
        let args = &self.demo.args;
        let audience = self.mean_audience();
        let rate = args.rate_for(audience);
        let config = SpamConfig {
            api: format!("http://{}", self.server.api()),
            users: args.users,
            rate,
            duration: args.seconds,
            // The latency shown is the server's, not that of a sender that waits for company.
            coalesce: Duration::ZERO,
            ..SpamConfig::default()
        };
        let spam = spawn_blocking(move || Spam::start(&config)).await??;
        let end = match args.seconds {
            Some(seconds) => format!("for {} s or until Ctrl-C", seconds.as_secs_f64()),
            None => "until Ctrl-C".into(),
        };
        self.demo.note(&format!(
            "sending  {} events/s x {audience:.1} listeners = {} deliveries/s, {end}",
            grouped(rate.round() as u64),
            grouped((rate * audience).round() as u64)
        ))?;
        Ok(spam)
    }

    /// A line a second until all is sent, or it is stopped.
    async fn watch(
        &mut self,
        flood: &mut Flood,
        spam: &mut Spam,
        course: &mut Course,
    ) -> Result<()> {
        let mut polls = Polls::new();
        let mut before = flood.snapshot();
        let live = self.demo.live();
        while !spam.is_finished() {
            self.server.expect_alive()?;
            if polls.line_is_due() {
                let (demo, earlier) = (self.demo, course.end);
                match demo.unless_stopped(self.look(course)).await {
                    Some(looked) => looked?,
                    None => break,
                }
                let (now, sent) = (flood.snapshot(), spam.snapshot().totals.sent);
                let line = line(&now, &before, sent);
                let cpu = course.end.cpu_seconds_since(&earlier);
                live.set(format!(
                    "{line}  server {} {:.0} %",
                    bytes(course.end.server.resident_bytes),
                    100.0 * cpu / course.end.seconds_since(&earlier).max(1e-3)
                ))?;
                before = now;
            }
            if self.demo.unless_stopped(polls.next()).await.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at the server and the machine once more.
    async fn look(&mut self, course: &mut Course) -> Result<()> {
        course.end = Moment::now(self.server).await?;
        let resident = course.end.server.resident_bytes;
        course.resident_bytes_max = course.resident_bytes_max.max(resident);
        course.machine_bytes_max = course.machine_bytes_max.max(course.end.machine_bytes);
        Ok(())
    }
}

/// The line of a second: counts since the start, the rate and the latencies of the last second.
fn line(now: &FloodSnapshot, before: &FloodSnapshot, sent: u64) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let rate = (now.totals.events - before.totals.events) as f64 / seconds;
    let mut line = format!(
        "online {}  sent {}  received {} ({}/s)  p50/p99 {:.2}/{:.2} ms",
        grouped(now.totals.open()),
        grouped(sent),
        grouped(now.totals.events),
        grouped(rate.round() as u64),
        now.latency.p50_ms,
        now.latency.p99_ms,
    );
    for (name, count) in [("missing", now.totals.missing()), ("ended", now.totals.closed_total())] {
        if count > 0 {
            line += &format!("  {name} {}", grouped(count));
        }
    }
    line
}

/// Often a look whether something is done, once a second a line.
struct Polls {
    interval: tokio::time::Interval,
    count: u32,
}

impl Polls {
    fn new() -> Polls {
        let mut interval = interval(POLL_PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        interval.reset();
        Polls { interval, count: 0 }
    }

    async fn next(&mut self) {
        self.interval.tick().await;
        self.count += 1;
    }

    /// Whether the look that comes next is to be told of.
    fn line_is_due(&self) -> bool {
        self.count > 0 && self.count.is_multiple_of(POLLS_PER_LINE)
    }
}
