//! Webhooks: batches of events that are posted to a receiver, in order, one batch at a time, each
//! repeated until it is taken.
//!
//! While a receiver is away, or slow, events wait in a [`Backlog`] with a bound. A batch is the
//! same each time it is sent. What the events are, and how they are signed, is theirs to say who
//! [have](Hooked) some: presence, and apps of the Pusher protocol.

mod backlog;
mod post;
mod url;

use std::pin::pin;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::backlog::{Backlog, Bounds, SharedBytes};
pub(crate) use self::post::WebhookClient;
pub use self::url::{WebhookUrl, WebhookUrlFault};
use crate::count::SharedCount;
use crate::log_interval::LogInterval;

/// How long more events are waited for before a batch that is not full is sent.
const GATHER: Duration = Duration::from_millis(200);

/// The waits between two tries.
const RETRIES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(200))
    .with_max_delay(Duration::from_secs(30))
    .with_factor(2.0)
    .with_jitter()
    .without_max_times();

/// Fields of a request's head.
pub(crate) type Fields = Vec<(&'static str, String)>;

/// What is counted of webhooks.
#[derive(Debug, Default)]
pub struct WebhookCounts {
    /// Batches that were taken.
    pub taken: SharedCount,
    /// Tries that failed.
    pub failed: SharedCount,
    /// Events that a backlog had no room for, or that were not taken in time.
    pub dropped: SharedCount,
    /// Events that wait now.
    pub backlog: SharedCount,
}

/// Nothing more will be told.
pub(crate) struct Over;

/// What waits for one webhook, and who adds to it.
pub(crate) trait Hooked {
    /// How long a batch is tried; `None` until it is taken.
    const TRIED_FOR: Option<Duration>;

    /// Puts what comes next behind what waits.
    async fn hear(&mut self) -> Result<(), Over>;

    /// How many events wait.
    fn waiting(&self) -> usize;

    /// Whether a batch would be full.
    fn has_batch(&self) -> bool;

    /// The body of the next batch, and how many events it has. It is on its way until these are
    /// [removed](Hooked::remove).
    fn batch(&mut self) -> (Vec<u8>, usize);

    /// The fields with which the batch `number` is posted now.
    fn fields(&mut self, number: u64, body: &[u8]) -> Fields;

    /// So many events need not be posted any more.
    fn remove(&mut self, events: usize);

    /// What is counted.
    fn counts(&self) -> &WebhookCounts;
}

/// Posts what waits, until nothing more will be told.
pub(crate) async fn deliver(client: &WebhookClient, hooked: &mut impl Hooked) -> Over {
    let mut log = LogInterval::default();
    let mut number = 0;
    loop {
        if let Err(over) = deliver_one(client, hooked, number, &mut log).await {
            return over;
        }
        number += 1;
    }
}

async fn deliver_one<H: Hooked>(
    client: &WebhookClient,
    hooked: &mut H,
    number: u64,
    log: &mut LogInterval,
) -> Result<(), Over> {
    gather(hooked).await?;
    let (body, count) = hooked.batch();
    let (body, mut pauses) = (Bytes::from(body), RETRIES.build());
    let end = H::TRIED_FOR.map(|time| Instant::now() + time);
    loop {
        let fields = hooked.fields(number, &body);
        match meanwhile(client.post(body.clone(), fields), hooked).await? {
            Ok(()) => {
                hooked.counts().taken.add(1);
                break;
            }
            Err(error) => {
                hooked.counts().failed.add(1);
                if let Some(more) = log.due(Instant::now()) {
                    let host = client.host();
                    tracing::warn!(more, "the webhook at {host} takes nothing: {error}");
                }
            }
        }
        let pause = pauses.next().expect("there is always another try");
        if end.is_some_and(|end| Instant::now() + pause > end) {
            hooked.counts().dropped.add(count as u64);
            break;
        }
        meanwhile(sleep(pause), hooked).await?;
    }
    hooked.remove(count);
    Ok(())
}

/// Waits until there is a batch.
async fn gather(hooked: &mut impl Hooked) -> Result<(), Over> {
    if hooked.waiting() == 0 {
        hooked.hear().await?;
    }
    let until = Instant::now() + GATHER;
    while !hooked.has_batch() || hooked.waiting() == 0 {
        match timeout_at(until, hooked.hear()).await {
            Ok(heard) => heard?,
            Err(_) if hooked.waiting() > 0 => break,
            // What has come found no room.
            Err(_) => hooked.hear().await?,
        }
    }
    Ok(())
}

/// Does `work`, and goes on hearing.
async fn meanwhile<T>(work: impl Future<Output = T>, hooked: &mut impl Hooked) -> Result<T, Over> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = work.as_mut() => return Ok(done),
            heard = hooked.hear() => heard?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::captured_log::CapturedLog;

    /// Has one event, and nothing more once that is done with.
    struct One {
        backlog: Backlog,
        is_told: bool,
        counts: WebhookCounts,
    }

    impl Hooked for One {
        const TRIED_FOR: Option<Duration> = Some(Duration::from_secs(300));

        async fn hear(&mut self) -> Result<(), Over> {
            if !std::mem::replace(&mut self.is_told, true) {
                assert!(self.backlog.push(b"{}".as_slice().into()));
                return Ok(());
            }
            match self.backlog.len() {
                0 => Err(Over),
                _ => pending().await,
            }
        }

        fn waiting(&self) -> usize {
            self.backlog.len()
        }

        fn has_batch(&self) -> bool {
            self.backlog.has_batch()
        }

        fn batch(&mut self) -> (Vec<u8>, usize) {
            self.backlog.batch(b"[", b"]")
        }

        fn fields(&mut self, _number: u64, body: &[u8]) -> Fields {
            assert_eq!(body, b"[{}]");
            Vec::new()
        }

        fn remove(&mut self, events: usize) {
            self.backlog.remove(events);
        }

        fn counts(&self) -> &WebhookCounts {
            &self.counts
        }
    }

    #[tokio::test(start_paused = true)]
    async fn batch_that_nobody_takes_is_given_up_after_its_time() {
        let (log, _guard) = CapturedLog::start();
        // Nobody listens there, and nobody else is given the port.
        let address = format!("127.0.0.1:{}", testing::free_port());
        let url = format!("http://{address}/s3cret?k=s3cret");
        let client = WebhookClient::new(url.parse().unwrap()).unwrap();
        let backlog = Backlog::new(Bounds::default());
        let mut one = One { backlog, is_told: false, counts: WebhookCounts::default() };
        let begun = Instant::now();
        let Over = deliver(&client, &mut one).await;
        // Another pause would end behind the five minutes.
        assert!(begun.elapsed() >= Duration::from_secs(240));
        let WebhookCounts { taken, failed, dropped, .. } = &one.counts;
        assert_eq!((taken.read(), dropped.read()), (0, 1));
        assert!(failed.read() >= 8, "{}", failed.read());
        // Path and query of its URL may be secrets.
        let log = log.text();
        let line = format!("the webhook at {address} takes nothing");
        assert!(log.contains(&line) && !log.contains("s3cret"), "{log}");
    }
}
