//! Webhooks: batches of events that are posted to a receiver, in order, one batch at a time, each
//! repeated until it is taken.
//!
//! While a receiver is away, or slow, events wait in a [`Backlog`] with a bound. A batch is the
//! same each time it is sent. One that is too large for its receiver (RFC 9110, 413) is not sent
//! again: the half of it is, as another batch. What the events are, and how they are signed, is
//! theirs to say who [have](Hooked) some: presence, and apps of the Pusher protocol.

mod backlog;
mod post;
mod url;

use std::pin::pin;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::backlog::{BATCH_MAX, Backlog, Bounds, SharedBytes};
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

    /// The body of the next batch, of `most` events, and how many it has. It is on its way until
    /// these are [removed](Hooked::remove), or another one is asked for.
    fn batch(&mut self, most: usize) -> (Vec<u8>, usize);

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
    let (mut number, mut most) = (0, BATCH_MAX);
    loop {
        if let Err(over) = deliver_one(client, hooked, number, &mut most, &mut log).await {
            return over;
        }
        number += 1;
    }
}

/// Delivers a batch of `most` events, which says then of how many the next one may be.
async fn deliver_one<H: Hooked>(
    client: &WebhookClient,
    hooked: &mut H,
    number: u64,
    most: &mut usize,
    log: &mut LogInterval,
) -> Result<(), Over> {
    gather(hooked, *most).await?;
    let (body, count) = hooked.batch(*most);
    let (body, mut pauses) = (Bytes::from(body), RETRIES.build());
    let end = H::TRIED_FOR.map(|time| Instant::now() + time);
    loop {
        let fields = hooked.fields(number, &body);
        match meanwhile(client.post(body.clone(), fields), hooked).await? {
            Ok(()) => {
                hooked.counts().taken.add(1);
                if count >= *most {
                    *most = (*most + *most / 8 + 1).min(BATCH_MAX);
                }
                break;
            }
            Err(error) if error.is_too_large() && count > 1 => {
                hooked.counts().failed.add(1);
                if let Some(more) = log.due(Instant::now()) {
                    let (host, bytes) = (client.host(), body.len());
                    tracing::warn!(
                        more,
                        "the webhook at {host} takes no batch of {bytes} bytes (413): halves of \
                         it are sent"
                    );
                }
                *most = count / 2;
                return Ok(());
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

/// Waits until there is a batch, which has no more than `most` events.
async fn gather(hooked: &mut impl Hooked, most: usize) -> Result<(), Over> {
    if hooked.waiting() == 0 {
        hooked.hear().await?;
    }
    let until = Instant::now() + GATHER;
    while !hooked.has_batch() && hooked.waiting() < most || hooked.waiting() == 0 {
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::captured_log::CapturedLog;

    /// Has some events, and nothing more once those are done with.
    struct Told {
        backlog: Backlog,
        events: Vec<Box<[u8]>>,
        counts: WebhookCounts,
    }

    impl Told {
        fn of(events: Vec<Box<[u8]>>) -> Told {
            let backlog = Backlog::new(Bounds::default());
            Told { backlog, events, counts: WebhookCounts::default() }
        }
    }

    impl Hooked for Told {
        const TRIED_FOR: Option<Duration> = Some(Duration::from_secs(300));

        async fn hear(&mut self) -> Result<(), Over> {
            if !self.events.is_empty() {
                for json in self.events.drain(..) {
                    assert!(self.backlog.push(json));
                }
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

        fn batch(&mut self, most: usize) -> (Vec<u8>, usize) {
            self.backlog.batch(most, b"[", b"]")
        }

        fn fields(&mut self, number: u64, _body: &[u8]) -> Fields {
            vec![("number", number.to_string())]
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
        let mut one = Told::of(vec![b"{}".as_slice().into()]);
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

    /// A request's number and body, as a receiver reads it.
    fn read(reader: &mut BufReader<TcpStream>) -> Option<(u64, Vec<u8>)> {
        let (mut number, mut bytes, mut line) = (0, 0, String::new());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let value = line.split_once(": ").map(|(_, value)| value.trim());
            if line.starts_with("number") {
                number = value?.parse().ok()?;
            } else if line.starts_with("content-length") {
                bytes = value?.parse().ok()?;
            }
        }
        let mut body = vec![0; bytes];
        reader.read_exact(&mut body).ok()?;
        Some((number, body))
    }

    /// Answers what comes over a connection, and tells it.
    fn answer(
        stream: TcpStream,
        most: usize,
        came: &mpsc::SyncSender<(u64, Vec<u8>)>,
    ) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (number, body) = read(&mut reader)?;
            let answer = match body.len() > most {
                true => "413 Too Large\r\nContent-Length: 0",
                false => "204 Taken",
            };
            came.send((number, body)).ok()?;
            let answer = format!("HTTP/1.1 {answer}\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).ok()?;
        }
    }

    /// The URL of a receiver that takes bodies of so many bytes, and what comes to it.
    fn receiver(most: usize) -> (String, mpsc::Receiver<(u64, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (came, heard) = mpsc::sync_channel(1_000);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let came = came.clone();
                thread::spawn(move || answer(stream, most, &came));
            }
        });
        (url, heard)
    }

    #[tokio::test]
    async fn batch_that_is_too_large_for_its_receiver_is_sent_as_halves_with_other_numbers() {
        const BYTES: usize = 200;
        let (log, _guard) = CapturedLog::start();
        let (url, heard) = receiver(BYTES);
        let client = WebhookClient::new(url.parse().unwrap()).unwrap();
        let events: Vec<Box<[u8]>> =
            (100..400).map(|n| n.to_string().into_bytes().into()).collect();
        let all = events.iter().map(|json| str::from_utf8(json).unwrap().to_owned());
        let all = all.collect::<Vec<_>>().join(",");
        let mut some = Told::of(events);
        let Over = deliver(&client, &mut some).await;
        drop(client);
        let mut came: Vec<_> = heard.try_iter().collect();
        // One that was answered late is repeated as it is.
        came.dedup();
        assert!(came.iter().map(|(number, _)| *number).eq(0..came.len() as u64), "each once");
        let taken = came.iter().filter(|(_, body)| body.len() <= BYTES);
        let taken: Vec<_> = taken.map(|(_, body)| str::from_utf8(body).unwrap()).collect();
        let told: Vec<_> = taken.iter().map(|body| body.trim_matches(['[', ']'])).collect();
        assert_eq!(told.join(","), all, "all, in their order");
        let refused = came.len() - taken.len();
        // 300, 150 and 75 events, and later one whenever it has tried for a few more.
        assert!((3..=6).contains(&refused), "{refused} of {}", came.len());
        assert!(some.counts.failed.read() >= refused as u64);
        assert!(log.text().contains("takes no batch of 1201 bytes (413)"), "{}", log.text());
    }
}
