//! The nodes that are connected, written down in the data directory, so that whoever goes on there
//! after an upgrade, a restart or a crash connects to them.
//!
//! A node with nothing but the modules of the original does not connect by itself. It knows Encke
//! by a global name, which it forgets with the connection. So we come back to it. A node that went
//! while we were there is let go. One that does not answer is tried for a minute.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use auth::checked_file::{CheckedFile, CheckedFileError};
use erlang::is_node_name;
use tokio::task::spawn_blocking;

use super::connect;
use super::gateway::Gateway;

/// For how long a node is tried that was connected before.
const TRIED_FOR: Duration = Duration::from_secs(60);

/// As many nodes with the longest names as may be connected.
const BYTES_MAX: u64 = 2 << 20;

type Names = BTreeSet<String>;

/// Connects to those that are written down in `dir`, but for `others`, which somebody else looks
/// after, and writes down who is connected until the node is stopped.
pub(super) async fn keep(gateway: Arc<Gateway>, dir: PathBuf, others: Vec<String>) {
    let file = file_in(dir);
    let mut written = read(&file);
    let coming = Arc::new(Mutex::new(Names::new()));
    for name in written.iter().filter(|name| !others.contains(name)) {
        lock(&coming).insert(name.clone());
        let back = come_back(Arc::clone(&gateway), name.clone(), Arc::clone(&coming));
        tokio::spawn(gateway.stop.clone().run_until_cancelled_owned(back));
    }
    loop {
        let mut changed = pin!(gateway.node.changed());
        changed.as_mut().enable();
        let mut names = lock(&coming).clone();
        names.extend(gateway.node.peers().iter().map(|peer| peer.name().to_owned()));
        if names != written {
            let (file, new) = (file.clone(), names.clone());
            let replaced = spawn_blocking(move || file.replace(&new)).await;
            if let Ok(Err(error)) = replaced {
                tracing::warn!("Erlang nodes that are connected cannot be noted: {}", told(&error));
            }
            written = names;
        }
        tokio::select! {
            biased;
            () = gateway.stop.cancelled() => return,
            () = changed => {}
        }
        // With the node its connections end, and those are to be come back to.
        if gateway.stop.is_cancelled() {
            return;
        }
    }
}

/// Connects to the node `name`, which was connected to the process before us.
async fn come_back(gateway: Arc<Gateway>, name: String, coming: Arc<Mutex<Names>>) {
    if let Err(error) = connect(&gateway, &name, Some(TRIED_FOR)).await {
        tracing::info!("the Erlang node {name} was connected before, and is let go: {error}");
    }
    lock(&coming).remove(&name);
}

fn file_in(dir: PathBuf) -> CheckedFile {
    CheckedFile {
        dir,
        name: "erlang-nodes.json",
        format: "encke erlang nodes 1",
        bytes_max: BYTES_MAX,
    }
}

/// Without the file nodes connect by themselves, or not; that is no reason not to start.
fn read(file: &CheckedFile) -> Names {
    let names = file.read::<Names>().unwrap_or_else(|error| {
        tracing::warn!("Erlang nodes that were connected are not known: {}", told(&error));
        None
    });
    names.unwrap_or_default().into_iter().filter(|name| is_node_name(name)).collect()
}

fn told(error: &CheckedFileError) -> String {
    match error {
        CheckedFileError::Io { path, error } => format!("{}: {error}", path.display()),
        CheckedFileError::Damaged { path, what } => format!("{}: {what}", path.display()),
    }
}

/// Each change is one insert or remove.
fn lock(names: &Mutex<Names>) -> std::sync::MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}
