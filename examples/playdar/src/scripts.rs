//! Resolvers that are programs of their own, asked over their standard input and output.
//!
//! A script is started without arguments, says what it is within five seconds, and is then asked
//! what the pipeline is asked. It answers as often as it likes, or not at all. What it writes to
//! standard error comes into our log. One that ends or breaks a rule is started again, later and
//! later, and all of them end with us: by the end of their input, or else by force.
//!
//! A script is a program that the user has chosen: its scores are believed, and it may do what the
//! user may. What it says still has bounds, since programs have faults.

mod frame;
mod log;
mod process;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::keep_up::keep_up;
use crate::model::{FIELD_BYTES_MAX, Found, Query};
use crate::pipeline::Pipeline;
use crate::resolver::Profile;

/// Queries that wait until a script reads them; further ones it is not asked.
const ASKED_MAX: usize = 64;

/// What a script is waited for that does not say how long, as the Erlang daemon did.
const TARGET_TIME_DEFAULT_MS: u64 = 50;

/// At most: more would keep those of less weight from being asked at all.
const TARGET_TIME_MAX_MS: u64 = 60_000;

/// All scripts, as long as they are kept up.
pub struct Scripts {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// The names that scripts have taken, since the pipeline knows resolvers by theirs.
type Names = Arc<Mutex<HashSet<String>>>;

/// Starts the programs at these paths, each of which joins `pipeline` when it has said what it is.
/// One that cannot be started is told in the log and tried again: it may be edited meanwhile.
pub fn start(paths: &[PathBuf], pipeline: &Pipeline) -> Scripts {
    let (stop, names) = (CancellationToken::new(), Names::default());
    let mut tasks = JoinSet::new();
    for path in paths {
        let (path, pipeline) = (path.clone(), pipeline.clone());
        let (names, stop) = (names.clone(), stop.clone());
        tasks.spawn(async move {
            let what = format!("the script {}", path.display());
            keep_up(&what, &stop, || process::run(&path, &pipeline, &names, &stop)).await;
        });
    }
    Scripts { stop, tasks }
}

impl Scripts {
    /// Ends them all.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.join_all().await;
    }
}

/// What a script says first.
#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default)]
    name: String,
    #[serde(default)]
    targettime: Option<f64>,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    localonly: bool,
    #[serde(default)]
    preference: Option<f64>,
}

/// What a script says.
#[derive(Debug, Deserialize)]
#[serde(tag = "_msgtype")]
enum Said {
    #[serde(rename = "settings")]
    Settings(Settings),
    #[serde(rename = "results")]
    Results {
        qid: String,
        /// Read one by one, so that a bad one costs the others nothing.
        results: Vec<serde_json::Value>,
    },
    #[serde(other)]
    Other,
}

impl Settings {
    /// What the pipeline is told. Numbers out of bounds are brought within; `fallback` names a
    /// script that does not name itself.
    fn profile(&self, fallback: &str) -> Profile {
        let plain: String = self.name.chars().filter(|c| !c.is_control()).collect();
        let name = if plain.trim().is_empty() { fallback } else { plain.trim() };
        let default_ms = TARGET_TIME_DEFAULT_MS as f64;
        let target_ms = self.targettime.unwrap_or(default_ms).clamp(0.0, TARGET_TIME_MAX_MS as f64);
        // `as` keeps within the type, and what is no number is 0.
        let weight = self.weight.unwrap_or(1.0).clamp(0.0, 100.0) as u8;
        let preference = self.preference.map_or(weight, |it| it.clamp(0.0, 100.0) as u8);
        Profile {
            name: name[..name.floor_char_boundary(FIELD_BYTES_MAX)].to_owned(),
            weight,
            target_time: Duration::from_millis(target_ms as u64),
            is_local_only: self.localonly,
            preference,
        }
    }
}

/// A query as a script is asked it.
#[derive(Serialize)]
struct Rq<'a> {
    _msgtype: &'static str,
    #[serde(flatten)]
    query: &'a Query,
    /// Scripts of old read it without looking whether it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    album: Option<&'static str>,
}

/// The frame that asks `query`.
fn rq(query: &Query) -> Option<Vec<u8>> {
    let album = if query.album.is_none() { Some("") } else { None };
    frame::encode(&Rq { _msgtype: "rq", query, album })
}

/// One result of a script, checked.
///
/// # Errors
/// It is out of bounds, or has no address that we would read a song from; the text says so.
fn found(result: serde_json::Value) -> Result<Found, String> {
    let found: Found = serde_json::from_value(result).map_err(|error| error.to_string())?;
    // One that is told and cannot be played would solve its query all the same.
    let is_http = |url: &str| {
        let rest = url.strip_prefix("http://").unwrap_or_default();
        !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    };
    match found.url.as_deref() {
        Some(url) if is_http(url) => Ok(found),
        Some(_) => {
            Err("its url does not begin with http://, the only one that is played".to_owned())
        }
        None => Err("it has no url to play it from".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn settings_out_of_bounds_are_brought_within() {
        let profile = |settings: Value| {
            serde_json::from_value::<Settings>(settings).unwrap().profile("song.py")
        };
        let usual = profile(json!({"name": " A\nB ", "targettime": 200, "weight": 50}));
        assert_eq!((usual.name.as_str(), usual.weight, usual.preference), ("AB", 50, 50));
        assert_eq!(usual.target_time, Duration::from_millis(200));
        let none = profile(json!({}));
        assert_eq!((none.name.as_str(), none.weight), ("song.py", 1));
        assert_eq!(none.target_time, Duration::from_millis(50));
        let wild = profile(json!({"name": "é".repeat(4000), "targettime": 1e300, "weight": -7,
            "preference": 1e9, "localonly": true}));
        assert!(wild.name.len() <= FIELD_BYTES_MAX && wild.is_local_only);
        assert_eq!((wild.weight, wild.preference), (0, 100));
        assert_eq!(wild.target_time, Duration::from_secs(60));
    }

    #[test]
    fn result_is_read_from_the_web_alone() {
        let result = |url: Value| found(json!({"artist": "A", "track": "B", "url": url}));
        for good in ["http://a.test/x.mp3", "http://a.test"] {
            assert_eq!(result(json!(good)).unwrap().url.as_deref(), Some(good));
        }
        let others = ["https://a.test/x.mp3", "file:///etc/passwd", "playdartcp://x"];
        for bad in others.into_iter().chain(["http:/x", "http:///x", "/etc", ""]) {
            assert!(result(json!(bad)).unwrap_err().contains("url"), "{bad}");
        }
        assert!(result(json!(7)).is_err());
        assert!(found(json!({"artist": "A", "url": "http://a.test"})).is_err());
    }

    #[test]
    fn scripts_of_old_find_an_album_in_every_query() {
        let read =
            |query: &Query| -> Value { serde_json::from_slice(&rq(query).unwrap()[4..]).unwrap() };
        let mut query = Query { qid: "Q".into(), artist: "A".into(), ..Query::default() };
        assert_eq!(read(&query)["album"], "");
        query.album = Some("B".to_owned());
        let asked = read(&query);
        assert_eq!((&asked["album"], &asked["_msgtype"]), (&json!("B"), &json!("rq")));
    }
}
