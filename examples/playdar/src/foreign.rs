//! What comes from other machines, checked as if an enemy had sent it.
//!
//! The LAN and the friends differ in how a message travels, not in what it may do here. It may cost
//! a bounded search, and it may name a song that its sender plays at `/sid/`. It cannot name a file
//! of ours or an address of a third party to read from. It cannot take the id of another result, or
//! put itself before better ones.

mod rates;
mod recent;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use rates::{Rate, Rates};
pub(crate) use recent::Recent;

use crate::model::{Found, Invalid, Query, check_id, new_id};
use crate::pipeline::{Pipeline, Watch};
use crate::resolver::Answers;
use crate::score::{Base, score};

/// Queries that are known at one time, of each way to others: those of an hour at one a second.
pub(crate) const QUERIES_MAX: usize = 4096;

/// Results that one query of others is answered with, and those that one of ours takes of all
/// others by one way, so that they leave room for the rest. The best come first, and ten were all
/// that the old library ever told.
pub(crate) const RESULTS_MAX: usize = 25;

/// A query that another machine asks.
///
/// # Errors
/// It is out of the bounds of [`Query`], or has no id, without which a loop would never end.
pub(crate) fn query(mut asked: Map<String, Value>) -> Result<Query, serde_json::Error> {
    // A comma list, as in the old interface of HTTP.
    if let Some(Value::String(list)) = asked.get("mimetypes") {
        let types = list.split(',').filter(|one| !one.trim().is_empty());
        let types: Vec<Value> = types.map(|one| Value::String(one.to_owned())).collect();
        asked.insert("mimetypes".to_owned(), Value::Array(types));
    }
    if !asked.get("qid").is_some_and(Value::is_string) {
        return Err(serde::de::Error::custom(Invalid::Missing("qid")));
    }
    serde_json::from_value(Value::Object(asked))
}

/// The query as it is asked here: under an id of ours, since an id of theirs may be that of a query
/// of this machine, whose results are not for them.
pub(crate) fn as_ours(query: &Query) -> Query {
    Query { qid: new_id(), is_local: false, ..query.clone() }
}

/// The results of a query of others, at most [`RESULTS_MAX`] in all.
pub(crate) struct Told {
    watch: Watch,
    left: usize,
}

impl Told {
    /// Asks `pipeline`; `None` where it has no room.
    pub(crate) fn of(pipeline: &Pipeline, query: Query) -> Option<Told> {
        let qid = pipeline.resolve(query).ok()?;
        Some(Told { watch: pipeline.watch(&qid)?, left: RESULTS_MAX })
    }

    /// Those that came since the last call; `None` when there are no more. The query lives longer
    /// than anybody waits, so whoever calls this gives it its time.
    pub(crate) async fn next(&mut self) -> Option<Vec<Arc<Found>>> {
        if self.left == 0 {
            return None;
        }
        let mut found = self.watch.next().await?;
        found.truncate(self.left);
        self.left -= found.len();
        Some(found)
    }
}

/// A query of ours that others were asked.
pub(crate) struct Asked {
    query: Arc<Query>,
    answers: Answers,
    /// Where the songs are that others have told.
    urls: HashSet<String>,
}

/// One that nobody has answered yet.
impl From<(Arc<Query>, Answers)> for Asked {
    fn from((query, answers): (Arc<Query>, Answers)) -> Asked {
        Asked { query, answers, urls: HashSet::new() }
    }
}

impl Asked {
    /// What was asked.
    pub(crate) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// Takes a result of another machine, which is played from `/sid/` below `base`. One that comes
    /// twice, or when there are enough, is dropped.
    ///
    /// # Errors
    /// It is out of the bounds of [`Found`], or has no id.
    pub(crate) fn take(&mut self, result: Map<String, Value>, base: &str) -> Result<(), Invalid> {
        let found = found(&self.query, result, base)?;
        let url = found.url.clone().unwrap_or_default();
        if self.urls.len() < RESULTS_MAX && self.urls.insert(url) {
            self.answers.add_foreign(&self.query.qid, vec![found]);
        }
        Ok(())
    }
}

/// A score that others claim counts up to what their names give, and the id that the result has
/// there is in its address alone: the pipeline gives it one of ours.
fn found(query: &Query, result: Map<String, Value>, base: &str) -> Result<Found, Invalid> {
    let mut found = Found::try_from(result)?;
    check_id("sid", &found.sid)?;
    if found.sid.bytes().all(|byte| byte == b'.') {
        // It would be taken out of the path.
        return Err(Invalid::Id("sid"));
    }
    found.url = Some(format!("{base}/sid/{}", found.sid));
    found.sid.clear();
    let ours = score(query, &found.artist, &found.track, &found.album, Base::Query);
    found.score = Some(found.score.map_or(ours, |claimed| claimed.min(ours)));
    found.preference = None;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn query_of_others_has_an_id_and_never_counts_as_ours() {
        let asked = json!({"qid": "q", "artist": "A", "track": "B", "is_local": true,
            "mimetypes": "audio/mpeg,,audio/flac"});
        let asked = query(map(asked)).unwrap();
        assert!(!asked.is_local);
        assert_eq!(asked.mimetypes, ["audio/mpeg", "audio/flac"]);
        for wrong in [
            json!({"artist": "A", "track": "B"}),
            json!({"qid": 7, "artist": "A", "track": "B"}),
            json!({"qid": "", "artist": "", "track": "B"}),
            json!({"qid": "../x", "artist": "A", "track": "B"}),
        ] {
            assert!(query(map(wrong.clone())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn result_of_others_is_read_from_its_sender_and_nowhere_else() {
        let query = Query { artist: "A".into(), track: "Song".into(), ..Query::default() };
        let result = json!({"sid": "S", "artist": "A", "track": "Song", "score": 0.9,
            "preference": 1e9, "url": "file:///etc/passwd"});
        let one = found(&query, map(result), "http://192.0.2.1:60210").unwrap();
        assert_eq!(one.url.as_deref(), Some("http://192.0.2.1:60210/sid/S"));
        assert_eq!((one.score, one.preference, one.sid.as_str()), (Some(0.9), None, ""));
    }

    #[test]
    fn claimed_score_counts_up_to_what_the_names_give() {
        let query = Query { artist: "A".into(), track: "Song".into(), ..Query::default() };
        let result = json!({"sid": "S", "artist": "B", "track": "Other", "score": 1.0});
        let found = found(&query, map(result), "http://192.0.2.1:1").unwrap();
        assert!(found.score.unwrap() < 0.6, "{:?}", found.score);
    }

    #[test]
    fn result_whose_id_leads_elsewhere_is_refused() {
        for sid in ["", "..", "../../api/?method=x", "a b", "a\r\nb", "@host"] {
            let query = Query::default();
            let result = json!({"sid": sid, "artist": "A", "track": "B"});
            let refused = found(&query, map(result), "http://192.0.2.1:1");
            assert!(refused.is_err(), "{sid}");
        }
    }
}
