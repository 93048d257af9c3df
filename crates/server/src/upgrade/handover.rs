//! The side of the server that serves: it hands everything to its successor, or goes on as if
//! nothing had been.
//!
//! Until [`ServingMessage::Yours`] is said every failure, of whatever kind, leads to
//! [`HandoverRun::undo`]. Saying it is one system call, which succeeds or not. A successor that
//! hears it has everything, one that finds the conversation ended has nothing, and in between there
//! is nothing.

use std::fmt::Display;
use std::sync::PoisonError;
use std::time::Duration;

use dispatch::idempotency::KeysRead;
use engine::Handover;
use graph::{HandedOver, LetGoError};
use sys::clock;
use tokio::process::Child;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use topics::TopicsDumped;

use super::conversation::Conversation;
use super::messages::{
    Copying, Done, HUB_VERSION, Have, Hello, Live, ServingMessage, Step, SuccessorMessage,
    UpgradeRefusal,
};
use super::serving::Serving;
use super::socket::SocketDir;
use super::{history, hub_state, program};

/// How long the successor may take until its workers wait: it reads keys, and the names of a store.
const READY_MAX: Duration = Duration::from_secs(60);

/// How long copying may make no progress.
const STILL_MAX: Duration = Duration::from_secs(60);

/// How long clients may be kept waiting before all goes on here.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// How long requests in progress may take to be done.
const REQUESTS_MAX: Duration = Duration::from_secs(2);

/// How long the successor may take from then on until it says that it serves: it may wait for the
/// port of an Erlang node.
const LIVE_MAX: Duration = Duration::from_secs(60);

/// How often it is looked how far the workers are, while they serve and while they do not.
const LOOK: Duration = Duration::from_millis(5);
const LOOK_FROZEN: Duration = Duration::from_millis(1);

/// How often it is said how far it is.
const TELL: Duration = Duration::from_secs(1);

/// How long a successor that is not wanted any more may take to end by itself, while all are
/// served.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a successor that failed may take to die, and the store to be free again.
const UNDO_MAX: Duration = Duration::from_secs(10);

/// Idempotency keys in one word, of some 130 bytes each.
const KEYS_PART: usize = 4096;

/// How an upgrade goes.
pub(super) struct HandoverRun<'g> {
    pub(super) serving: &'g Serving,
    pub(super) successor: Conversation,
    pub(super) hello: Hello,
    pub(super) version: u32,
    /// The successor's process, if it was started here.
    pub(super) child: Option<Child>,
    /// Hears how far it is.
    pub(super) tell: &'g mut (dyn FnMut(Step) + Send),
    /// The server is to end.
    pub(super) ending: &'g CancellationToken,
    /// Whether a part of the idempotency keys was sent, and where the next one begins.
    pub(super) has_keys: bool,
    pub(super) keys: u64,
    /// How far the memory of what was sent has been sent on.
    pub(super) history: history::Sent,
    /// How far what the hub knows of topics has been sent on.
    pub(super) topics: TopicsDumped,
    /// The store is being let go of, or has been.
    pub(super) letting_go: Option<JoinHandle<Result<HandedOver, LetGoError>>>,
}

/// A sentence about a part of it that failed.
fn failed<E: Display>(part: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("{part}: {error}")
}

/// Who has failed.
const SUCCESSOR: &str = "the new program";
const STORE: &str = "the store";

impl HandoverRun<'_> {
    /// Hands everything over. An error says why not; then all is as before.
    pub(super) async fn run(mut self) -> Result<Done, String> {
        let begun_ms = clock::monotonic_ms();
        let ending = self.ending.clone();
        let ready = tokio::select! {
            ready = self.prepare(begun_ms) => ready,
            () = ending.cancelled() => Err("the server is ending".to_owned()),
        };
        // The directory is there until all is handed over.
        let (dir, workers) = match ready {
            Ok(ready) => ready,
            Err(why) => return Err(self.undo(None, why).await),
        };
        let handover = {
            let engine = self.serving.engine.read().unwrap_or_else(PoisonError::into_inner);
            engine.begin_handover(dir.path(), workers)
        };
        if self.version < HUB_VERSION {
            handover.leave_hub_out();
        }
        let handed = tokio::select! {
            handed = self.hand_over(&handover) => handed,
            () = ending.cancelled() => Err("the server is ending".to_owned()),
        };
        let said = handed.and_then(|connections| {
            // Nothing waits here: it is said, or it is not.
            let said = self.successor.say_at_once(&ServingMessage::Yours);
            said.map(|()| connections).map_err(failed(SUCCESSOR))
        });
        match said {
            Ok(connections) => Ok(self.leave(handover, connections, begun_ms).await),
            Err(why) => Err(self.undo(Some(handover), why).await),
        }
    }

    /// Tells the successor what it must know, and waits until its workers do. Where they wait, and
    /// how many they are.
    async fn prepare(&mut self, begun_ms: u64) -> Result<(SocketDir, usize), String> {
        let facts = self.serving.facts(self.version, begun_ms);
        self.say(&ServingMessage::Facts(Box::new(facts))).await?;
        let ready = match self.successor_message(READY_MAX).await? {
            SuccessorMessage::Ready(ready) => ready,
            word => return Err(unexpected(&word)),
        };
        // It names a directory beside the socket, and no other.
        if ready.workers == 0 || ready.dir.contains('/') || ready.dir.starts_with('.') {
            return Err(format!("{SUCCESSOR} says what nobody understands: {ready:?}"));
        }
        let Hello { pid, encke, .. } = &self.hello;
        let text = format!("encke {encke} (process {pid}) is ready to take over");
        (self.tell)(Step { text, ..Step::default() });
        let dir =
            SocketDir::open(&self.serving.data.join(&ready.dir)).map_err(failed(SUCCESSOR))?;
        Ok((dir, ready.workers))
    }

    /// Everything up to the point of no return; answers how many connections the successor has.
    async fn hand_over(&mut self, handover: &Handover) -> Result<u64, String> {
        self.send_history().await?;
        self.send_keys(false).await?;
        self.copy(handover).await?;
        let pause = self.pause(handover);
        let paused = timeout(PAUSE_MAX, pause).await;
        paused.unwrap_or_else(|_| {
            Err(format!("it would keep clients waiting for more than {} s", PAUSE_MAX.as_secs()))
        })
    }

    async fn send_history(&mut self) -> Result<(), String> {
        let router = &self.serving.router;
        let sent = history::send(&mut self.successor, router, &mut self.history, self.version);
        sent.await.map_err(failed(SUCCESSOR))?;
        let sent = hub_state::send(&mut self.successor, router, &mut self.topics, self.version);
        sent.await.map_err(failed(SUCCESSOR))
    }

    /// Sends the idempotency keys that are remembered and were not sent yet; once nobody sends any
    /// more all of them.
    async fn send_keys(&mut self, at_last: bool) -> Result<(), String> {
        loop {
            let keys = self.serving.state.idempotency();
            let KeysRead { part, next, is_all } = keys.write(self.keys, KEYS_PART, at_last);
            // A first part is sent in any case: it has the secret of their hashes.
            let is_first = !std::mem::replace(&mut self.has_keys, true);
            let is_new = next > self.keys;
            self.keys = next;
            if is_new || is_first {
                self.say(&ServingMessage::Keys(part)).await?;
            }
            if is_all || !is_new {
                return Ok(());
            }
        }
    }

    /// Waits until all descriptors are copied.
    async fn copy(&mut self, handover: &Handover) -> Result<(), String> {
        let (mut looks, mut told) = (interval(LOOK), Instant::now());
        let (mut before, mut since) = (0, Instant::now());
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                // It has nothing to say but that it will not.
                heard = self.successor.is_heard() => {
                    heard.map_err(failed(SUCCESSOR))?;
                    let word = self.successor_message(STILL_MAX).await?;
                    return Err(unexpected(&word));
                }
            }
            let progress = handover.progress();
            if let Some(why) = progress.failed {
                return Err(why);
            }
            let (copied, of) = (progress.copied, progress.of);
            if copied != before {
                (before, since) = (copied, Instant::now());
            }
            if progress.done {
                let text = format!("connections copied: {copied}");
                (self.tell)(Step { text, copied, of });
                return Ok(());
            }
            if since.elapsed() > STILL_MAX {
                let seconds = STILL_MAX.as_secs();
                return Err(format!("connections are not copied any more since {seconds} s"));
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.say(&ServingMessage::Copying(Copying { copied, of })).await?;
                let text = format!("connections copied: {copied} of {of}");
                (self.tell)(Step { text, copied, of });
            }
        }
    }

    /// All from when clients begin to wait.
    async fn pause(&mut self, handover: &Handover) -> Result<u64, String> {
        let serving = self.serving;
        serving.settle_streams(REQUESTS_MAX).await;
        let paused_ms = clock::monotonic_ms();
        serving.hold_still(REQUESTS_MAX).await?;
        serving.pass_listeners(&mut self.successor).await.map_err(failed(SUCCESSOR))?;
        handover.freeze();
        let connections = loop {
            match handover.written() {
                Some(written) => break written?,
                None => sleep(LOOK_FROZEN).await,
            }
        };
        self.send_history().await?;
        self.send_keys(true).await?;
        let graph = serving.graph.clone();
        let letting_go = self.letting_go.insert(spawn_blocking(move || graph.let_go()));
        let let_go = letting_go.await.map_err(failed(STORE))?;
        let_go.map_err(failed(STORE))?;
        if let Some(keeping) = &serving.keeping {
            keeping.let_go().await.map_err(failed("the log of kept events"))?;
        }
        let rest = serving.rest(paused_ms, connections, self.history, self.version);
        self.say(&ServingMessage::Rest(Box::new(rest))).await?;
        match self.successor_message(PAUSE_MAX).await? {
            SuccessorMessage::Have(Have { connections: theirs }) if theirs == connections => {
                Ok(theirs)
            }
            SuccessorMessage::Have(Have { connections: theirs }) => {
                Err(format!("{SUCCESSOR} has {theirs} of {connections} connections"))
            }
            word => Err(unexpected(&word)),
        }
    }

    /// All is the successor's.
    async fn leave(mut self, handover: Handover, connections: u64, begun_ms: u64) -> Done {
        handover.leave();
        self.serving.move_on();
        self.serving.end_erlang().await;
        // It may have said all that it has to say, and gone.
        let _ = self.say(&ServingMessage::Left).await;
        let heard = self.successor_message(LIVE_MAX).await;
        let (pause_milliseconds, lost) = match heard {
            Ok(SuccessorMessage::Live(Live { pause_ms })) => (pause_ms, None),
            Ok(word) => (0, Some(unexpected(&word))),
            Err(why) => (0, Some(why)),
        };
        let ended = lost.is_some() && self.successor.has_ended();
        let known = self.successor.peer().map_or(0, |peer| peer.pid);
        Done {
            pid: if known > 0 { known } else { self.hello.pid },
            version: self.hello.encke.clone(),
            connections,
            milliseconds: clock::monotonic_ms().saturating_sub(begun_ms),
            pause_milliseconds,
            lost,
            ended,
        }
    }

    /// All goes on here. Answers why, once it does.
    async fn undo(mut self, handover: Option<Handover>, why: String) -> String {
        // The successor does nothing to a connection before it was told that it may, which it will
        // not.
        let was_paused = handover.is_some();
        drop(handover);
        let last = ServingMessage::Refuse(UpgradeRefusal { why: why.clone() });
        // It may be gone, or not listen.
        let _ = self.successor.say_at_once(&last);
        self.successor.end().await;
        // The program that was started may have started the successor in its turn.
        let successor = self.successor.peer().ok().map(|peer| peer.pid);
        let is_known_to_end =
            successor.is_some() && successor == self.child.as_ref().and_then(Child::id);
        if let Some(child) = self.child {
            program::end(child, if was_paused { Duration::ZERO } else { PATIENCE }).await;
        }
        if let Some(letting_go) = self.letting_go
            && !letting_go.is_finished()
        {
            // It says why by itself.
            let _ = letting_go.await;
        }
        // Whoever cannot be ended may keep the store for long: sends go on without it.
        if !is_known_to_end {
            self.serving.go_on();
        }
        self.serving.take_back(UNDO_MAX).await;
        self.serving.go_on();
        why
    }

    async fn say(&mut self, word: &ServingMessage) -> Result<(), String> {
        self.successor.say(word).await.map_err(failed(SUCCESSOR))
    }

    /// The next word of the successor's that we know.
    async fn successor_message(&mut self, most: Duration) -> Result<SuccessorMessage, String> {
        let is_known = |word: &SuccessorMessage| !matches!(word, SuccessorMessage::Unknown);
        match self.successor.hear_known(most, is_known).await.map_err(failed(SUCCESSOR))? {
            SuccessorMessage::Refuse(refusal) => Err(refusal.why),
            word => Ok(word),
        }
    }
}

fn unexpected(word: &SuccessorMessage) -> String {
    format!("{SUCCESSOR} says what nobody has asked for: {word:?}")
}
