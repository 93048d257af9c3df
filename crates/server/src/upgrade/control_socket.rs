//! The control socket of a server that serves: who asks for an upgrade comes here, and the
//! successor, too.

mod starting;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::starting::{NotStarted, OVER};
use super::conversation::Conversation;
use super::handover::{HandoverRun, PATIENCE};
use super::messages::{
    Ask, Done, FirstMessage, Hello, ServingMessage, StarterMessage, Step, UpgradeRefusal, VERSIONS,
    common_version,
};
use super::program::{self, Program};
use super::serving::Serving;
use super::socket::{Socket, may_ask};

/// How long who has connected may take to say what for.
const FIRST_WORD_MAX: Duration = Duration::from_secs(5);

/// Who talks to it at one time; others wait. Of upgrades there is one.
const CALLERS_MAX: usize = 16;

/// How long to wait after an accept that failed for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who asks for upgrades, and which is under way.
pub(crate) struct Upgrades {
    serving: Serving,
    program: Option<Program>,
    /// Why there is never one here.
    never: Option<&'static str>,
    stage: Mutex<Stage>,
    /// The server is to end, and the upgrade that is under way with it.
    ending: CancellationToken,
    /// What has become of it, once all is another process's.
    done: watch::Sender<Option<Done>>,
}

/// What is under way.
enum Stage {
    Nothing,
    /// A program was started, and is not heard of yet.
    Started(oneshot::Sender<(Conversation, Hello)>),
    UnderWay,
    /// All is another's.
    Over,
}

/// Who asks, and hears how far it is as long as he listens.
struct Starter(Option<Conversation>);

impl Starter {
    /// Nobody who listens holds an upgrade up.
    fn tell(&mut self, word: &StarterMessage) {
        if let Some(conversation) = &mut self.0
            && conversation.say_at_once(word).is_err()
        {
            self.0 = None;
        }
    }
}

impl Upgrades {
    pub(crate) fn new(
        serving: Serving,
        program: Option<Program>,
        never: Option<&'static str>,
    ) -> Arc<Upgrades> {
        Arc::new(Upgrades {
            serving,
            program,
            never,
            stage: Mutex::new(Stage::Nothing),
            ending: CancellationToken::new(),
            done: watch::Sender::new(None),
        })
    }

    /// Makes the socket in the directory `data`, at once, and answers there until `stop`.
    pub(crate) fn serve(
        self: Arc<Upgrades>,
        data: &Path,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Not only when the task runs: whoever is told that we serve looks there.
        let socket = Socket::bind(data).inspect_err(|error| {
            tracing::warn!(
                "this server cannot be upgraded in place: no socket can be made in {}: {error}",
                data.display()
            );
        });
        async move {
            if let Ok(socket) = socket {
                self.accept(&socket, stop).await;
                socket.remove();
            }
        }
    }

    async fn accept(self: Arc<Upgrades>, socket: &Socket, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CALLERS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned();
            let caller = tokio::select! {
                () = stop.cancelled() => break,
                caller = async { (place.await, socket.listener.accept().await) } => caller,
            };
            match caller {
                (place, Ok((stream, _))) => {
                    let upgrades = Arc::clone(&self);
                    tokio::spawn(async move {
                        upgrades.hear(stream).await;
                        drop(place);
                    });
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "who asks for an upgrade cannot be heard");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Starts the program anew, so that it takes over. In a task of its own, as those have who come
    /// to the socket: whoever awaits this may stop to, and the upgrade must come to its end.
    pub(crate) async fn start(self: &Arc<Upgrades>) {
        let upgrades = Arc::clone(self);
        let begun = tokio::spawn(async move {
            upgrades.begin(Ask::default(), Starter(None)).await;
        });
        // A panic was told.
        let _ = begun.await;
    }

    /// What is handed over.
    #[cfg(test)]
    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    /// Waits until all is another process's.
    pub(crate) async fn done(&self) -> Done {
        let mut done = self.done.subscribe();
        match done.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(done)) => done.clone(),
            // The sender is ours.
            _ => std::future::pending().await,
        }
    }

    /// There is no upgrade any more; one that is under way has failed, or has succeeded, when this
    /// returns: `true`.
    pub(crate) async fn end(&self) -> bool {
        self.ending.cancel();
        loop {
            match *self.stage() {
                Stage::Nothing => return false,
                Stage::Over => return true,
                Stage::Started(_) | Stage::UnderWay => {}
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn hear(&self, stream: UnixStream) {
        let mut caller = Conversation::new(stream);
        match caller.peer().and_then(may_ask) {
            Ok(true) => {}
            Ok(false) => {
                return tracing::warn!(
                    "another user than the server's has asked for an upgrade, and is not heard"
                );
            }
            Err(error) => return tracing::warn!(%error, "nobody knows who asks for an upgrade"),
        }
        match caller.hear_within(FIRST_WORD_MAX).await {
            Ok(FirstMessage::Hello(hello)) => self.greet(caller, hello).await,
            Ok(FirstMessage::Ask(ask)) => self.begin(ask, Starter(Some(caller))).await,
            Ok(FirstMessage::Unknown) => {
                let why = "this version of the server does not know what it is asked for".into();
                // Who says what we do not know may not know this either.
                let _ = caller.say(&StarterMessage::Refuse(UpgradeRefusal { why })).await;
            }
            Err(error) => tracing::debug!(%error, "who came to the upgrade's socket said nothing"),
        }
    }

    /// A program has come that wants to take over: the one that was started, or one that somebody
    /// else has started.
    async fn greet(&self, mut successor: Conversation, hello: Hello) {
        let refused = {
            let mut stage = self.stage();
            match std::mem::replace(&mut *stage, Stage::UnderWay) {
                // It may have been started through another program, so its number says nothing.
                Stage::Started(awaited) => {
                    drop(stage);
                    // Nobody waits any more: it hears that by the end of the conversation.
                    let _ = awaited.send((successor, hello));
                    return;
                }
                Stage::Nothing => match self.obstacle() {
                    Some(why) => {
                        *stage = Stage::Nothing;
                        Some(why)
                    }
                    None => None,
                },
                Stage::UnderWay => Some(UNDER_WAY.to_owned()),
                Stage::Over => {
                    *stage = Stage::Over;
                    Some(OVER.to_owned())
                }
            }
        };
        match refused {
            Some(why) => {
                tracing::warn!(
                    pid = hello.pid,
                    "a program that was to take over is refused: {why}"
                );
                // It may have gone.
                let _ = successor.say(&ServingMessage::Refuse(UpgradeRefusal { why })).await;
            }
            None => {
                let given = self.give(successor, hello, None, &mut Starter(None)).await;
                self.conclude(given, Starter(None));
            }
        }
    }

    /// Starts the program, and hands everything over to it.
    async fn begin(&self, ask: Ask, mut starter: Starter) {
        let started = self.start_program(&ask).await;
        let given = match started {
            Ok((child, successor, hello)) => {
                self.give(successor, hello, Some(child), &mut starter).await
            }
            Err(NotStarted::Busy(why)) => {
                let why = why.to_owned();
                tracing::warn!("no second upgrade is begun: {why}");
                return starter.tell(&StarterMessage::Refuse(UpgradeRefusal { why }));
            }
            Err(NotStarted::Failed(why)) => Err(why),
        };
        self.conclude(given, starter);
    }

    async fn give(
        &self,
        mut successor: Conversation,
        hello: Hello,
        child: Option<Child>,
        starter: &mut Starter,
    ) -> Result<Done, String> {
        let Some(version) = common_version(&hello.versions) else {
            let why = other_versions(&hello.versions);
            // It may have gone.
            let _ =
                successor.say(&ServingMessage::Refuse(UpgradeRefusal { why: why.clone() })).await;
            if let Some(child) = child {
                program::end(child, PATIENCE).await;
            }
            return Err(why);
        };
        tracing::info!(pid = hello.pid, version = hello.encke, "a new program begins to take over");
        let mut tell = |step: Step| starter.tell(&StarterMessage::Progress(step));
        let (serving, ending) = (&self.serving, &self.ending);
        let run = HandoverRun {
            serving,
            successor,
            hello,
            version,
            child,
            tell: &mut tell,
            ending,
            has_keys: false,
            keys: 0,
            history: Default::default(),
            topics: Default::default(),
            letting_go: None,
        };
        run.run().await
    }

    /// Tells everybody what an upgrade has come to.
    fn conclude(&self, given: Result<Done, String>, mut starter: Starter) {
        match given {
            Ok(done) => {
                if let Some(why) = &done.lost {
                    tracing::error!(
                        "the new program has taken over, but nobody heard that it serves: {why}"
                    );
                }
                tracing::info!(
                    pid = done.pid,
                    version = done.version,
                    connections = done.connections,
                    seconds = done.milliseconds as f64 / 1e3,
                    pause_ms = done.pause_milliseconds,
                    "a new program has taken over; this one ends"
                );
                *self.stage() = Stage::Over;
                starter.tell(&StarterMessage::Done(done.clone()));
                self.done.send_replace(Some(done));
            }
            Err(why) => {
                tracing::warn!("the upgrade has failed, and this program goes on: {why}");
                *self.stage() = Stage::Nothing;
                starter.tell(&StarterMessage::Refuse(UpgradeRefusal { why }));
            }
        }
    }

    /// Why no upgrade may begin.
    fn obstacle(&self) -> Option<String> {
        let never = self.never.map(str::to_owned);
        let is_ending = self.ending.is_cancelled().then(|| "the server is ending".to_owned());
        let is_held = !self.serving.graph.is_ours();
        never.or(is_ending).or_else(|| is_held.then(|| HELD.to_owned()))
    }

    /// Each change is one step.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const UNDER_WAY: &str = "an upgrade is under way; ask again when it is done";

const HELD: &str = "a program that was to take over, and failed, holds the store still: end it, \
                    and ask again";

fn other_versions(theirs: &[u32]) -> String {
    format!(
        "the new program hands over by versions {theirs:?}, and this one by {VERSIONS:?}: upgrade \
         to a version between the two first, or restart the server"
    )
}
