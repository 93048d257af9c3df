//! The demo's load: everybody comes online, then events are sent, and each second is told.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use figures::latency::Quantiles;
use figures::numbers::{bytes, grouped, short};
use load::report::{FloodReport, LiveText, RunReport, SpamReport};
use load::spam::Payload;
use load::{Flood, FloodConfig, FloodSnapshot, Spam, SpamConfig};
use tokio::task::spawn_blocking;
use tokio::time::sleep_until;

use super::Demo;
use super::files::RunFiles;
use super::friends::Stored;
use super::measure::{Course, DemoSnapshot, Opening};
use super::process::ServerProcess;
use super::report::{DemoReport, GraphReport};
use crate::cli::flood;
use crate::cli::ticker::Ticker;

/// How long to wait for what is still on its way when the last event is sent, and how late an event
/// may be at any time.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to listen whether more comes than was delivered.
const QUIET: Duration = Duration::from_millis(100);

/// The load on one server.
pub(super) struct Load<'a> {
    pub(super) demo: &'a Demo,
    pub(super) server: &'a mut ServerProcess,
    pub(super) stored: Stored,
    /// Memory of the machine in use before the demo did anything.
    pub(super) machine_bytes_before: u64,
    /// Where each look is kept.
    pub(super) files: Option<&'a mut RunFiles>,
}

impl Load<'_> {
    /// All of it. `None` when it was stopped before the first event was sent.
    pub(super) async fn run(mut self) -> Result<Option<DemoReport>> {
        let empty = self.demo.unless_stopped(DemoSnapshot::now(self.server)).await;
        let Some(empty) = empty.transpose()? else { return Ok(None) };
        let mut course = Course::new(empty);
        self.keep(&course, Quantiles::default())?;
        let Some(mut flood) = self.connect(&mut course).await? else { return Ok(None) };
        let mut spam = self.start_sending().await?;
        self.watch(&mut flood, &mut spam, &mut course).await?;
        let subjects = spam.subjects(u64::MAX);
        let spam = SpamReport::from(&spawn_blocking(move || spam.finish()).await?);
        let delivered = spam.delivered;
        let arrival = spawn_blocking(move || {
            flood.wait_until(ARRIVAL_TIMEOUT, |totals| totals.stamped >= delivered);
            // What comes beside that comes twice, and right behind it.
            flood.wait_until(QUIET, |totals| totals.stamped > delivered);
            flood
        });
        let mut flood = arrival.await?;
        // The last latencies have a row too.
        if let Some(due) = self.files.as_ref().and_then(|files| files.due()) {
            sleep_until(due.into()).await;
        }
        self.look(&mut course).await?;
        self.keep(&course, flood.snapshot().latency)?;
        let flood = FloodReport::from(&spawn_blocking(move || flood.finish()).await??);
        let graph = GraphReport {
            users: self.demo.args.users,
            subscriptions: self.stored.subscriptions,
            mean_audience: self.mean_audience(),
        };
        let visitors = course.end.server.connections_opened.saturating_sub(begun(&flood));
        let to_visitors = match visitors {
            0 => None,
            _ => self.to_visitors(&course, &spam, subjects).await?,
        };
        let run = RunReport::new(flood, spam).with_others(visitors, to_visitors);
        Ok(Some(DemoReport::new(run, graph, &course, self.machine_bytes_before)))
    }

    /// How many of the deliveries were to visitors: all beyond those to the crowd, each of whom has
    /// one stream, by the graph. `None` where somebody has changed that meanwhile.
    async fn to_visitors(
        &self,
        course: &Course,
        spam: &SpamReport,
        subjects: impl Iterator<Item = u32> + Send + 'static,
    ) -> Result<Option<u64>> {
        let stored = self.stored.subscriptions;
        if [&course.idle, &course.end].iter().any(|at| at.server.subscriptions != stored) {
            return Ok(None);
        }
        let (friends, sent) = (self.demo.friends(), spam.sent as usize);
        let to_listeners = spawn_blocking(move || {
            let followers = friends.followers()?;
            let audience = |user: u32| 1 + u64::from(followers[user as usize]);
            Ok::<u64, anyhow::Error>(subjects.take(sent).map(audience).sum())
        });
        Ok(Some(spam.delivered.saturating_sub(to_listeners.await??)))
    }

    /// Brings everybody online. `None` when it was stopped first.
    async fn connect(&mut self, course: &mut Course) -> Result<Option<Flood>> {
        let (demo, args) = (self.demo, &self.demo.args);
        let users = u64::from(args.users);
        let (base, trust) = match self.server.secured() {
            Some(secured) => (secured.base(), Some(secured.certificate.trust()?)),
            None => (format!("http://{}", self.server.listen()), None),
        };
        let config = FloodConfig {
            url: base + args.transport.path(),
            trust,
            transport: args.transport.into(),
            tokens: demo.signer.clone().map(flood::tokens),
            users: args.users,
            late_after: ARRIVAL_TIMEOUT,
            ..FloodConfig::default()
        };
        let started = Instant::now();
        let mut flood = flood::start(config)?;
        let (mut opening, mut ticker) = (Opening::default(), Ticker::new());
        let mut before = (started, 0);
        let live = demo.live();
        let totals = loop {
            let totals = flood.totals();
            let now = (Instant::now(), totals.opened);
            opening.push(now.0.duration_since(started), now.1);
            let all_tried = totals.opened + totals.failed_total() >= users;
            if all_tried || ticker.line_is_due() {
                let look = self.look(course);
                let Some(looked) = demo.unless_stopped(look).await else { return Ok(None) };
                looked?;
                self.keep(course, Quantiles::default())?;
            }
            if all_tried {
                break totals;
            }
            if ticker.line_is_due() {
                let heap = course.end.server.resident_anonymous_bytes;
                live.set(connecting_line(now, before, users, heap))?;
                before = now;
            }
            self.server.expect_alive()?;
            if demo.unless_stopped(ticker.tick()).await.is_none() {
                return Ok(None);
            }
        };
        drop(live);
        if let Some(failure) = flood.snapshot().first_failure {
            let (failed, users) = (grouped(totals.failed_total()), grouped(users));
            bail!(
                "{failed} of {users} streams did not open: {failure}; see what limits there are \
                 with `encke tune --with-clients`"
            );
        }
        let last = Duration::from_nanos(totals.opened_after_ns);
        opening.push(last, totals.opened);
        let (open, [rate, ..]) = (grouped(totals.open()), opening.rates());
        demo.note(&format!(
            "online   {open} listeners after {:.1} s, {}/s",
            last.as_secs_f64(),
            grouped(rate.round() as u64)
        ))?;
        course.all_online(opening);
        Ok(Some(flood))
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
            payload: Payload::Song,
            late_after: ARRIVAL_TIMEOUT,
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
        let mut ticker = Ticker::new();
        let mut before = (Instant::now(), flood.totals().events);
        let live = self.demo.live();
        while !spam.is_finished() {
            self.server.expect_alive()?;
            if ticker.line_is_due() {
                let (demo, earlier) = (self.demo, course.end.clone());
                match demo.unless_stopped(self.look(course)).await {
                    Some(looked) => looked?,
                    None => break,
                }
                // Once it is sure that there is a row for it.
                let now = flood.snapshot();
                self.keep(course, now.latency)?;
                let sent = spam.snapshot().totals.sent;
                let cpu = course.end.cpu_seconds_since(&earlier);
                let server = format!(
                    "heap {} {:.0} %",
                    bytes(course.end.server.resident_anonymous_bytes),
                    100.0 * cpu / course.end.seconds_since(&earlier).max(1e-3)
                );
                live.set(sending_line(&now, before, sent, server))?;
                before = (Instant::now(), now.totals.events);
            }
            if self.demo.unless_stopped(ticker.tick()).await.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at the server and the machine once more.
    async fn look(&mut self, course: &mut Course) -> Result<()> {
        course.observe(DemoSnapshot::now(self.server).await?);
        Ok(())
    }

    /// Keeps the last look. `latency` is what the crowd measured since the look before.
    fn keep(&mut self, course: &Course, latency: Quantiles) -> Result<()> {
        match &mut self.files {
            Some(files) => files.add(&course.end, latency),
            None => Ok(()),
        }
    }
}

/// Connections that the crowd began, as far as the server saw them.
fn begun(flood: &FloodReport) -> u64 {
    flood.opened + flood.failed
}

/// The line of a second while the crowd comes online: so many were at `now` and `before`.
fn connecting_line(
    now: (Instant, u64),
    before: (Instant, u64),
    users: u64,
    heap_bytes: u64,
) -> String {
    let seconds = now.0.duration_since(before.0).as_secs_f64().max(1e-3);
    let rate = (now.1 - before.1) as f64 / seconds;
    format!(
        "connecting {} of {} ({}/s)  heap {}",
        grouped(now.1),
        grouped(users),
        grouped(rate.round() as u64),
        bytes(heap_bytes),
    )
}

/// The line of a second: counts since the start, the rate and the latencies since `before`, when
/// so many events were heard.
fn sending_line(now: &FloodSnapshot, before: (Instant, u64), sent: u64, server: String) -> String {
    let seconds = before.0.elapsed().as_secs_f64().max(1e-3);
    let rate = (now.totals.events - before.1) as f64 / seconds;
    let (online, heard) = (short(now.totals.open()), short(now.totals.events));
    LiveText::default()
        .part(format!("online {online}"))
        .counts(&[("missing", now.totals.missing()), ("ended", now.totals.closed_total())])
        .part(format!("heard {heard} ({}/s)", short(rate.round() as u64)))
        .latency("", &now.latency)
        .part(server)
        .part(format!("sent {}", short(sent)))
        .end()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use load::flood::Totals;

    use super::*;

    #[test]
    fn line_of_a_million_fits_a_terminal() {
        let mut now = FloodSnapshot {
            seconds: 3_600.0,
            users: 1_000_000,
            totals: Totals { opened: 1_000_000, events: 999_999_999, ..Totals::default() },
            runs: Default::default(),
            config: Arc::new(FloodConfig::default()),
            latency: Quantiles { count: 1, p50_ms: 12.34, p99_ms: 1_234.5, ..Quantiles::default() },
            first_failure: None,
            trouble: None,
        };
        let before = (Instant::now().checked_sub(Duration::from_secs(1)).unwrap(), 0);
        let line = sending_line(&now, before, 16_666, "heap 512.3 MB 145 %".into());
        assert!(line.chars().count() <= 80, "{line}");
        assert!(line.contains("heard 1.00 G") && line.contains("p50/p99 12.3/1234"), "{line}");
        (now.totals.opened, now.totals.events, now.latency.p99_ms) = (300, 12_000, 1.5);
        let line = sending_line(&now, before, 600, "heap 42.1 MB 5 %".into());
        assert!(line.ends_with("heap 42.1 MB 5 %"), "what has no room is left out: {line}");
    }
}
