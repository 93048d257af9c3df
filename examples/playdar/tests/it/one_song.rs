//! A pipeline that knows one song, as the library of somebody who has one.

use std::sync::Arc;
use std::time::Duration;

use playdar::model::{Found, Query};
use playdar::pipeline::Pipeline;
use playdar::resolver::{Answers, Profile, Resolver};
use serde_json::json;
pub(crate) use testing::DEADLINE;
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) const ARTIST: &str = "Mokele";
pub(crate) const TRACK: &str = "Hiding in your insides";

/// Answers the query for its song, and says what it was asked.
pub(crate) struct OneSong {
    weight: u8,
    url: Option<&'static str>,
    asked: watch::Sender<Vec<Arc<Query>>>,
}

/// A pipeline with such a resolver of weight 100, which has the song where there is a `url`.
pub(crate) fn pipeline(url: Option<&'static str>) -> (Pipeline, Arc<OneSong>) {
    let pipeline = Pipeline::new();
    let song = OneSong::new(100, url);
    pipeline.add(song.clone());
    (pipeline, song)
}

impl OneSong {
    pub(crate) fn new(weight: u8, url: Option<&'static str>) -> Arc<OneSong> {
        Arc::new(OneSong { weight, url, asked: watch::Sender::default() })
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Arc<Query>> {
        self.asked.borrow().clone()
    }

    /// Waits until it was asked for a song of this title.
    pub(crate) async fn asked_for(&self, track: &str) {
        let mut asked = self.asked.subscribe();
        let is_it = |asked: &Vec<Arc<Query>>| asked.iter().any(|query| query.track == track);
        let waited = timeout(DEADLINE, asked.wait_for(is_it)).await;
        waited.expect("it is asked in time").expect("the sender is here");
    }
}

impl Resolver for OneSong {
    fn profile(&self) -> Profile {
        Profile {
            name: format!("one song of weight {}", self.weight),
            weight: self.weight,
            target_time: Duration::from_millis(20),
            is_local_only: false,
            preference: self.weight,
        }
    }

    fn ask(&self, query: &Arc<Query>, answers: &Answers) {
        self.asked.send_modify(|asked| asked.push(query.clone()));
        let is_it =
            query.artist.eq_ignore_ascii_case(ARTIST) && query.track.eq_ignore_ascii_case(TRACK);
        if let Some(url) = self.url.filter(|_| is_it) {
            let song = json!({"sid": "THE-SONG", "artist": ARTIST, "track": TRACK, "url": url,
                "mimetype": "audio/mpeg", "size": 7, "source": "library", "score": 1.0});
            answers.add(&query.qid, vec![serde_json::from_value(song).unwrap()]);
        }
    }
}

/// A query of this machine for the song.
pub(crate) fn query(qid: &str) -> Query {
    query_for(qid, TRACK)
}

/// A query of this machine for another one.
pub(crate) fn query_for(qid: &str, track: &str) -> Query {
    Query {
        qid: qid.to_owned(),
        artist: ARTIST.to_owned(),
        track: track.to_owned(),
        is_local: true,
        ..Query::default()
    }
}

/// The first results of a query, as the daemon has them, with their addresses.
pub(crate) async fn first(pipeline: &Pipeline, qid: &str) -> Vec<Arc<Found>> {
    let mut watch = pipeline.watch(qid).expect("it was asked");
    let results = timeout(DEADLINE, watch.next()).await;
    results.expect("somebody answers in time").expect("the query lives")
}
