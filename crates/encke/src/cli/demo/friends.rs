//! The demo's friends graph: made once, and kept where it is to stay.
//!
//! A data directory that the demo has filled says so in a small file beside the store. So the next
//! run of the same demo finds its graph and uses it as it stands, and no run ever writes into a
//! store of somebody else. The file is written before the graph is. The graph comes in one
//! transaction, so behind the file there is either nothing yet or all of it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use figures::numbers::grouped;
use graph::{Graph, LoadOptions};
use load::graph_model::BarabasiAlbert;
use serde::{Deserialize, Serialize};
use server::open_graph;

use crate::cli::work::{Progress, on_own_thread};

/// The file that says which graph the demo put into a data directory.
const MARK: &str = "demo.json";

/// The graph's random choices: every demo of a size has the same graph.
const SEED: u64 = 1;

/// Which graph a demo runs on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Friends {
    pub(super) users: u32,
    pub(super) edges_per_user: u32,
    /// Each friendship is stored both ways.
    pub(super) both: bool,
    seed: u64,
}

/// A graph that stands in its directory, closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) subscriptions: u64,
    /// It was there before.
    pub(super) found: bool,
}

impl Friends {
    pub(super) fn new(users: u32, edges_per_user: u32, both: bool) -> Friends {
        Friends { users, edges_per_user, both, seed: SEED }
    }

    /// Sees to it that the graph stands in `dir`.
    ///
    /// Dropped before it is done it leaves a thread behind, for which nobody waits: it ends with
    /// the process. So its files are made before that begins, which is a moment: whoever drops this
    /// may remove `dir`, and it does not come back.
    ///
    /// # Errors
    /// Also when another graph stands there: it is left alone.
    pub(super) async fn provide(&self, dir: &Path) -> Result<Stored> {
        let graph = open_graph(dir)?;
        let subscriptions = graph.subscriptions();
        if subscriptions > 0 {
            self.check_mark(dir, subscriptions)?;
            return Ok(Stored { subscriptions, found: true });
        }
        self.write_mark(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
        let friends = self.clone();
        on_own_thread(move || friends.fill(&graph)).await
    }

    /// Makes the graph and stores it. Blocks meanwhile.
    fn fill(&self, graph: &Graph) -> Result<Stored> {
        let mut progress = Progress::new("generating");
        let lines = self.generate(&mut |done, total| progress.set("generating", done, total))?;
        let options = LoadOptions { both: self.both, skip_malformed: false };
        let bytes = lines.len() as u64;
        graph.load("the graph", &mut lines.as_slice(), bytes, options, &mut |now| {
            progress.set("loading", now.done, now.total);
        })?;
        Ok(Stored { subscriptions: graph.subscriptions(), found: false })
    }

    /// The friendships: a line each, who follows first.
    pub(super) fn lines(&self) -> Result<Vec<u8>> {
        self.generate(&mut |_, _| {})
    }

    /// How many follow each user, by the user's number. It is counted as the graph is made once
    /// more, so that it costs nothing while events are sent.
    pub(super) fn followers(&self) -> Result<Vec<u32>> {
        let Friends { users, edges_per_user, seed, both } = *self;
        let mut followers = Followers { both, counts: vec![0; users as usize], number: None };
        let model = BarabasiAlbert { users, edges_per_user, seed };
        model.generate(&mut followers, &mut |_, _| {})?;
        Ok(followers.counts)
    }

    /// A user with followers, where there are users enough: friendships are written from the older
    /// to the newer user, so the newest one is followed by all its friends.
    pub(super) fn followed(&self) -> u32 {
        self.users.saturating_sub(1)
    }

    fn generate(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<u8>> {
        let Friends { users, edges_per_user, seed, .. } = *self;
        let mut lines = Vec::new();
        BarabasiAlbert { users, edges_per_user, seed }.generate(&mut lines, progress)?;
        Ok(lines)
    }

    fn check_mark(&self, dir: &Path, subscriptions: u64) -> Result<()> {
        let mark = fs::read(dir.join(MARK)).ok();
        let found = mark.and_then(|mark| serde_json::from_slice::<Friends>(&mark).ok());
        let what = match found {
            Some(found) if found == *self => return Ok(()),
            Some(Friends { users, edges_per_user, both, .. }) => format!(
                "the graph of another demo: {} users, {edges_per_user} edges each, {}",
                grouped(users.into()),
                if both { "both ways" } else { "one way" }
            ),
            None => format!("{} subscriptions that no demo made", grouped(subscriptions)),
        };
        bail!("{} holds {what}; name another directory with --data", dir.display())
    }

    fn write_mark(&self, dir: &Path) -> Result<()> {
        let mut file = File::create(dir.join(MARK))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        // Not behind the graph, which is on disk when it is loaded.
        Ok(file.sync_all()?)
    }
}

/// Reads the lines of a graph as they are written, and counts.
struct Followers {
    both: bool,
    counts: Vec<u32>,
    /// The number that is being read.
    number: Option<u32>,
}

impl Followers {
    /// A number has ended: of a line's two it is the one who is followed, or who follows.
    fn ended(&mut self, is_followed: bool) {
        if let Some(user) = self.number.take()
            && (is_followed || self.both)
            && let Some(count) = self.counts.get_mut(user as usize)
        {
            *count += 1;
        }
    }
}

impl Write for Followers {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            match byte {
                b'0'..=b'9' => {
                    let digit = u32::from(byte - b'0');
                    self.number = Some(self.number.unwrap_or(0).wrapping_mul(10) + digit);
                }
                b'\n' => self.ended(true),
                _ => self.ended(false),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Stored {
    /// How many hear an event on average when everybody is online: its subject and who follows it.
    pub(super) fn mean_audience(&self, users: u32) -> f64 {
        1.0 + self.subscriptions as f64 / f64::from(users)
    }
}

#[cfg(test)]
mod tests {
    use hub::Id;

    use super::*;

    #[tokio::main(flavor = "current_thread")]
    async fn provide(friends: &Friends, dir: &Path) -> Result<Stored> {
        friends.provide(dir).await
    }

    #[test]
    fn graph_is_made_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let friends = Friends::new(100, 5, false);
        let made = provide(&friends, dir.path()).unwrap();
        assert_eq!((made.subscriptions, made.found), (485, false));
        assert!((made.mean_audience(100) - 5.85).abs() < 1e-9);
        let again = provide(&friends, dir.path()).unwrap();
        assert_eq!((again.subscriptions, again.found), (485, true));
        let error = provide(&Friends::new(100, 5, true), dir.path()).unwrap_err().to_string();
        assert!(error.contains("100 users, 5 edges each, one way"), "{error}");
    }

    #[test]
    fn followers_are_those_of_the_stored_graph() {
        for both in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let friends = Friends::new(100, 5, both);
            provide(&friends, dir.path()).unwrap();
            let graph = open_graph(dir.path()).unwrap();
            let stored = |user: u64| {
                graph.page_followers(Id::integer(user).unwrap(), None, 100).unwrap().ids.len()
            };
            let followers = friends.followers().unwrap();
            assert_eq!(followers.len(), 100);
            for (user, count) in (0..).zip(&followers) {
                assert_eq!(*count as usize, stored(user), "{user}");
            }
            assert!(followers[friends.followed() as usize] >= 5);
        }
    }

    #[test]
    fn load_that_was_broken_off_is_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let friends = Friends::new(100, 5, true);
        drop(open_graph(dir.path()).unwrap());
        Friends::new(7, 1, false).write_mark(dir.path()).unwrap();
        let made = provide(&friends, dir.path()).unwrap();
        assert_eq!((made.subscriptions, made.found), (970, false));
        assert!(provide(&friends, dir.path()).unwrap().found);
    }

    #[test]
    fn store_of_somebody_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let graph = open_graph(dir.path()).unwrap();
        let options = LoadOptions::default();
        graph.load("pairs", &mut "1 2\n".as_bytes(), 4, options, &mut |_| {}).unwrap();
        drop(graph);
        let error = provide(&Friends::new(2, 1, false), dir.path()).unwrap_err().to_string();
        assert!(error.contains("1 subscriptions that no demo made"), "{error}");
        assert_eq!(open_graph(dir.path()).unwrap().subscriptions(), 1);
        assert!(!dir.path().join(MARK).exists());
    }
}
