//! One run of a script, from its start to its end.
//!
//! | state | what may come | then |
//! | --- | --- | --- |
//! | starting | `settings`, within [`SETTINGS_TIMEOUT`] | it joins the pipeline |
//! | starting | anything else, or nothing | the end |
//! | asked | `results` | those that are good are handed on |
//! | asked | another message | it is told in the log, and ignored |
//! | asked | a broken frame, or the end of its output | the end |
//! | asked | it reads nothing for [`WRITE_TIMEOUT`] | the end |

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ASKED_MAX, Names, Said, Settings, frame, log, rq};
use crate::foreign::{QUERIES_MAX, Recent};
use crate::model::Query;
use crate::pipeline::Pipeline;
use crate::resolver::{Answers, Queue};

/// How long a script may take until it says what it is.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a script may let a query wait in its input, which has room for some 64 KiB of them.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a script may take to end once its input has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Who wants to hear of which query.
type QueriesAsked = Recent<Answers>;

/// Runs the program at `path` until it ends, breaks a rule, or is to stop. Without an error it was
/// to stop.
pub(super) async fn run(
    path: &Path,
    pipeline: &Pipeline,
    names: &Names,
    stop: &CancellationToken,
) -> Result<()> {
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.kill_on_drop(true).spawn().context(
        "it cannot be started; see that it is there and may be executed, and that its first line \
         names its interpreter",
    );
    let mut child = child?;
    let input = child.stdin.take().expect("it is piped");
    let output = child.stdout.take().expect("it is piped");
    let errors = child.stderr.take().expect("it is piped");
    let shown = path.display().to_string();
    let ended = {
        // Dropped with the block: what a grandchild still writes is nobody's concern.
        let talk = talk(path, input, output, pipeline, names);
        let mut logged = std::pin::pin!(log::follow(&shown, errors));
        let mut talk = std::pin::pin!(talk);
        let mut is_logged = false;
        loop {
            tokio::select! {
                ended = &mut talk => break ended,
                () = &mut logged, if !is_logged => is_logged = true,
                () = stop.cancelled() => break Ok(()),
            }
        }
    };
    // Its input has ended with `talk`.
    let told = end(&mut child).await;
    ended.map_err(|error| error.context(told))
}

/// Waits for the end, or brings it about; says which.
async fn end(child: &mut Child) -> String {
    match timeout(END_TIMEOUT, child.wait()).await {
        Ok(Ok(status)) => format!("it ended: {status}"),
        Ok(Err(error)) => format!("its end is not known: {error}"),
        Err(_) => match child.kill().await {
            Ok(()) => "it was killed, since it did not end with its input".to_owned(),
            Err(error) => format!("it cannot be killed: {error}"),
        },
    }
}

/// All that is said in one run, until the script's output ends or something is wrong.
async fn talk(
    path: &Path,
    mut input: ChildStdin,
    mut output: ChildStdout,
    pipeline: &Pipeline,
    names: &Names,
) -> Result<()> {
    let settings = timeout(SETTINGS_TIMEOUT, settings(&mut output)).await;
    let settings = settings.map_err(|_| {
        anyhow!("it did not say its settings within {SETTINGS_TIMEOUT:?}: let it send them first")
    })??;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut profile = settings.profile(&file_name);
    let name = Name::take(names, profile.name)?;
    profile.name = name.name.clone();
    let (sender, mut waiting) = mpsc::channel::<(Arc<Query>, Answers)>(ASKED_MAX);
    pipeline.add(Arc::new(Queue { profile, sender }));
    let _joined = Joined { pipeline, name: &name.name };
    // Both ends at once: a script that answers while it is asked must not stand still.
    let asked: Mutex<QueriesAsked> = Mutex::new(Recent::new(QUERIES_MAX));
    let asking = async {
        while let Some((query, answers)) = waiting.recv().await {
            let Some(frame) = rq(&query) else { continue };
            // Noted before it is asked, so that no answer can come before that.
            asked.lock().note(&query.qid, answers);
            let written = timeout(WRITE_TIMEOUT, input.write_all(&frame)).await;
            let written = written.map_err(|_| {
                anyhow!("it read nothing for {WRITE_TIMEOUT:?}: let it read while it searches")
            })?;
            written.context("its input is closed")?;
        }
        // The pipeline has another of its name; then this one is not asked any more.
        std::future::pending().await
    };
    let hearing = async {
        while let Some(body) = frame::read(&mut output).await? {
            hear(&name.name, &body, &mut asked.lock());
        }
        bail!("it closed its output")
    };
    tokio::select! {
        ended = asking => ended,
        ended = hearing => ended,
    }
}

/// The first message.
async fn settings(output: &mut ChildStdout) -> Result<Settings> {
    let body = frame::read(output).await?.context("it ended before it said its settings")?;
    match serde_json::from_slice(&body) {
        Ok(Said::Settings(settings)) => Ok(settings),
        Ok(_) => bail!("its first message is another one than its settings"),
        Err(error) => bail!("its first message is not understood: {error}"),
    }
}

/// One message of a script that is asked.
fn hear(name: &str, body: &[u8], asked: &mut QueriesAsked) {
    let (qid, results) = match serde_json::from_slice(body) {
        Ok(Said::Results { qid, results }) => (qid, results),
        Ok(Said::Settings(_) | Said::Other) => {
            return tracing::debug!(name, "a script said what nobody asked");
        }
        Err(error) => {
            return tracing::debug!(name, "a message of a script is not understood: {error}");
        }
    };
    let Some(answers) = asked.of(&qid) else {
        return tracing::debug!(name, "a script answered a query that it was not asked");
    };
    let good = |result: Value| {
        let found = super::found(result);
        found.inspect_err(|why| tracing::debug!(name, "a result of a script: {why}")).ok()
    };
    answers.add(&qid, results.into_iter().filter_map(good).collect());
}

/// A name that no other script has, until it is dropped.
struct Name<'a> {
    names: &'a Names,
    name: String,
}

impl<'a> Name<'a> {
    fn take(names: &'a Names, wanted: String) -> Result<Name<'a>> {
        let mut taken = names.lock();
        // As many as there are scripts, at most.
        let others = (2..=taken.len() + 1).map(|n| format!("{wanted} ({n})"));
        let free =
            std::iter::once(wanted.clone()).chain(others).find(|name| taken.insert(name.clone()));
        let name = free.context("no name is free")?;
        Ok(Name { names, name })
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}

/// In the pipeline until it is dropped, however the run ends.
struct Joined<'a> {
    pipeline: &'a Pipeline,
    name: &'a str,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.pipeline.remove(self.name);
    }
}
