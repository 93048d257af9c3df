//! A stream that is followed whatever happens to its connections: each is resumed by the next.
//!
//! | what came | then |
//! | --- | --- |
//! | a stream ended, broke off or fell silent; a try failed | another try, later and later |
//! | a try was answered "not now" | the same, after the time that the server asks for |
//! | a refusal for good, or a logout | the end |
//! | nobody answered the first try of all | the end: most likely the address is wrong |

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::{Instant, sleep, timeout};

use super::{Loss, Stream, StreamItem, Wanted};

/// How long a connection may take until its stream is open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream that was open for so long was a good one: the pauses begin anew.
const STEADY: Duration = Duration::from_secs(10);

/// From half a second to half a minute, and a random part as long on top of each, so that a crowd
/// that lost its server at one moment comes back spread out.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(30))
    .without_max_times()
    .with_jitter();

/// What a follower tells.
#[derive(Debug)]
pub(crate) enum FollowerEvent {
    /// The stream is open: for the first time or again.
    Online { again: bool },
    /// There is no stream, and why. Told once, until there is one again.
    Offline(Error),
    /// Events were missed that nobody remembers, or may have been.
    Gap,
    /// An event's JSON.
    Event(Vec<u8>),
}

#[derive(PartialEq, Eq)]
enum StreamState {
    /// Nobody has answered yet.
    New,
    Online,
    /// It is told that there is no stream.
    Offline,
}

/// One stream to its listener, many connections to its server.
pub(crate) struct Follower {
    wanted: Wanted,
    stream: Option<(Stream, Instant)>,
    state: StreamState,
    was_online: bool,
    /// What came and was not told yet.
    heard: VecDeque<StreamItem>,
    /// What ended the stream or the last try, as long as it is not told.
    loss: Option<Loss>,
    /// Where the next stream goes on.
    place: Option<String>,
    pauses: ExponentialBackoff,
    /// Before the next try.
    pause: Duration,
}

impl Follower {
    pub(crate) fn new(wanted: Wanted) -> Follower {
        Follower {
            wanted,
            stream: None,
            state: StreamState::New,
            was_online: false,
            heard: VecDeque::new(),
            loss: None,
            place: None,
            pauses: PAUSES.build(),
            pause: Duration::ZERO,
        }
    }

    /// Waits for what is to be told next.
    ///
    /// # Errors
    /// It is over: the server will not have this listener, or there never was a server.
    pub(crate) async fn next(&mut self) -> Result<FollowerEvent> {
        loop {
            // What came before a loss is told before it.
            match self.heard.pop_front() {
                Some(StreamItem::Event(json)) => return Ok(FollowerEvent::Event(json)),
                Some(StreamItem::Gap) => return Ok(FollowerEvent::Gap),
                Some(StreamItem::Place(place)) => self.place = Some(place),
                None => {
                    let told = match self.loss.take() {
                        Some(loss) => self.lose(loss)?,
                        None => self.go_on().await,
                    };
                    if let Some(told) = told {
                        return Ok(told);
                    }
                }
            }
        }
    }

    /// Reads the stream, or opens one.
    async fn go_on(&mut self) -> Option<FollowerEvent> {
        let done = match &mut self.stream {
            Some((stream, _)) => read(stream, self.wanted.silence, &mut self.heard).await,
            None => {
                sleep(self.pause).await;
                self.open().await
            }
        };
        self.loss = done.err();
        if self.loss.is_some() || self.state == StreamState::Online {
            return None;
        }
        self.state = StreamState::Online;
        Some(FollowerEvent::Online { again: std::mem::replace(&mut self.was_online, true) })
    }

    async fn open(&mut self) -> Result<(), Loss> {
        let opening = Stream::open(&self.wanted, self.place.as_deref(), &mut self.heard);
        let late = || {
            anyhow!("no answer from {} within {OPEN_TIMEOUT:?}; look at its log", self.wanted.url)
        };
        let stream = timeout(OPEN_TIMEOUT, opening).await.unwrap_or_else(|_| Err(late().into()))?;
        self.stream = Some((stream, Instant::now()));
        if self.was_online && self.place.is_none() {
            // No server ever said where the stream stands, so none can know what was missed.
            self.heard.push_front(StreamItem::Gap);
        }
        Ok(())
    }

    fn lose(&mut self, loss: Loss) -> Result<Option<FollowerEvent>> {
        let opened = self.stream.take().map(|(_, opened)| opened);
        if opened.is_some_and(|opened| opened.elapsed() >= STEADY) {
            self.pauses = PAUSES.build();
        }
        let (error, asked) = match loss {
            Loss::Final(error) => return Err(error),
            Loss::Cut(error) if self.state == StreamState::New => return Err(error),
            Loss::Cut(error) => (error, Duration::ZERO),
            Loss::Busy(error, asked) => (error, asked),
        };
        self.pause = asked + self.pauses.next().expect("there is always another try");
        match std::mem::replace(&mut self.state, StreamState::Offline) {
            StreamState::Offline => Ok(None),
            StreamState::New | StreamState::Online => Ok(Some(FollowerEvent::Offline(error))),
        }
    }
}

/// Reads from `stream`, unless it is silent for too long.
async fn read(
    stream: &mut Stream,
    silence: Option<Duration>,
    heard: &mut VecDeque<StreamItem>,
) -> Result<(), Loss> {
    let reading = stream.read(heard);
    let Some(silence) = silence else { return reading.await };
    let silent = || anyhow!("nothing came for {silence:?}, not even a keep-alive");
    timeout(silence, reading).await.unwrap_or_else(|_| Err(silent().into()))
}
