//! Comet, as the two old daemons did it: one long answer per session, into which queries flow.
//!
//! The Erlang daemon's is `/api/?method=comet&id=ID`, multipart pages of scripts or raw JSON; the
//! C++ one's is `/comet?session=ID`, one endless list. A query opts in with `resolve&comet=ID`,
//! before the answer is opened or after. New clients listen to [`crate::streams`] instead.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query as Parsed, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::reply::{refuse, script_safe};
use super::{App, Parameters, Shared, guard};
use crate::model::{Found, check_id};
use crate::pipeline::Watch;

/// Sessions at once; with one more, the oldest that nobody listens to ends.
const SESSIONS_MAX: usize = 256;

/// Batches of results that wait for a session's answer; further ones wait at their queries.
const WAITING_MAX: usize = 16;

/// New results of one query.
type Batch = (String, Vec<Arc<Found>>);

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<String, Session>,
    made: u64,
}

struct Session {
    sender: Sender<Batch>,
    /// Until an answer takes it.
    receiver: Option<Receiver<Batch>>,
    /// Which one it is in time, and by which it is told from a later one of its id.
    number: u64,
    /// The queries that flow into it; there are no more of them than queries.
    fed: HashSet<String>,
}

impl Sessions {
    /// Lets the results of a query flow into a session, until either ends. One that does already
    /// flows on, and its results come once.
    pub(super) fn feed(self: &Arc<Sessions>, id: &str, watch: Watch) {
        let qid = watch.query().qid.clone();
        let mut table = self.table.lock();
        let Some(session) = table.session(id) else { return };
        if !session.fed.insert(qid.clone()) {
            return;
        }
        let (sender, number) = (session.sender.clone(), session.number);
        let (sessions, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            pass_on(watch, sender).await;
            let mut table = sessions.table.lock();
            let session = table.by_id.get_mut(&id).filter(|session| session.number == number);
            if let Some(session) = session {
                session.fed.remove(&qid);
            }
        });
    }

    /// What flows into a session. An answer that it had before hears of
    /// no further query.
    fn open(self: &Arc<Sessions>, id: &str) -> Option<Flow> {
        let mut table = self.table.lock();
        if table.session(id)?.receiver.is_none() {
            table.by_id.remove(id);
        }
        let session = table.session(id)?;
        let (receiver, number) = (session.receiver.take()?, session.number);
        Some(Flow { sessions: self.clone(), id: id.to_owned(), number, receiver })
    }
}

/// Results are taken out of the query when there is room for them, and not before: a session that
/// nobody opens holds none beyond its bound, and keeps no task longer than the query lives.
async fn pass_on(mut watch: Watch, sender: Sender<Batch>) {
    loop {
        let has_more = tokio::select! {
            () = sender.closed() => return,
            has_more = watch.has_more() => has_more,
        };
        if !has_more {
            return;
        }
        let room = tokio::select! {
            () = watch.ended() => return,
            room = sender.reserve() => room,
        };
        let (Ok(room), Some(found)) = (room, watch.next().await) else { return };
        room.send((watch.query().qid.clone(), found));
    }
}

impl Table {
    /// The session of this id, a new one if there is none; nothing where all places are listened
    /// to.
    fn session(&mut self, id: &str) -> Option<&mut Session> {
        if !self.by_id.contains_key(id) && self.by_id.len() >= SESSIONS_MAX {
            let idle = self.by_id.iter().filter(|(_, session)| session.receiver.is_some());
            let oldest = idle.min_by_key(|(_, session)| session.number)?.0.clone();
            self.by_id.remove(&oldest);
        }
        self.made += 1;
        let number = self.made;
        Some(self.by_id.entry(id.to_owned()).or_insert_with(|| {
            let (sender, receiver) = channel(WAITING_MAX);
            Session { sender, receiver: Some(receiver), number, fed: HashSet::new() }
        }))
    }
}

/// What flows into a session, until its answer ends.
struct Flow {
    sessions: Arc<Sessions>,
    id: String,
    number: u64,
    receiver: Receiver<Batch>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        if table.by_id.get(&self.id).is_some_and(|session| session.number == self.number) {
            table.by_id.remove(&self.id);
        }
    }
}

/// `/api/?method=comet&id=ID[&jsonp=CALLBACK][&mode=raw]`.
pub(super) fn answer(app: &Arc<App>, parameters: &Parameters, callback: Option<&str>) -> Response {
    let is_raw = parameters.get("mode").is_some_and(|mode| mode == "raw");
    let callback = callback.map(str::to_owned);
    let first = if is_raw { "" } else { "<html><head></head><body>" };
    let kind = "multipart/x-mixed-replace";
    flow(app, parameters.get("id"), kind, first, move |(qid, found): Batch| {
        let found: Vec<_> = found.iter().map(|found| &**found).collect();
        let value = json!({"method": "results", "qid": qid, "results": found});
        let text = match &callback {
            Some(callback) => format!("{callback}({});", script_safe(&value)),
            None => script_safe(&value),
        };
        match is_raw {
            true => format!("{text}\n\n"),
            false => format!("<script type=\"text/javascript\">{text}</script>\n\n"),
        }
    })
}

/// `/comet?session=ID`.
pub(super) async fn answer_old(
    State(app): Shared,
    headers: HeaderMap,
    Parsed(parameters): Parsed<Parameters>,
) -> Response {
    if !guard::is_let_in(&app, &parameters, guard::is_foreign(&headers)) {
        return refuse(StatusCode::FORBIDDEN, "pages need a token, given as auth=TOKEN");
    }
    let kind = "text/javascript; charset=utf-8";
    flow(&app, parameters.get("session"), kind, "[", |(qid, found): Batch| {
        let mut text = String::new();
        for found in found {
            let value = script_safe(&json!({"query": qid, "result": &*found}));
            // Writing to a string does not fail.
            let _ = write!(text, "{value},\r\n");
        }
        text
    })
}

/// The answer of a session: `first`, then each batch as `write` has it.
fn flow(
    app: &Arc<App>,
    id: Option<&String>,
    kind: &'static str,
    first: &'static str,
    write: impl Fn(Batch) -> String + Send + 'static,
) -> Response {
    let id = id.map(String::as_str).unwrap_or_default();
    if let Err(invalid) = check_id("the session", id) {
        return refuse(StatusCode::BAD_REQUEST, &invalid.to_string());
    }
    let Some(flow) = app.sessions.open(id) else {
        let what = "too many sessions are open: end one, or listen to the streams that stat names";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let batches = unfold((flow, write), |(mut flow, write)| async move {
        let batch = flow.receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(write(batch))), (flow, write)))
    });
    let first = (!first.is_empty()).then(|| Ok(Bytes::from_static(first.as_bytes())));
    let first = futures_util::stream::iter(first);
    ([(CONTENT_TYPE, kind)], Body::from_stream(first.chain(batches))).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::model::Query;
    use crate::pipeline::Pipeline;
    use crate::resolver::{Answers, Profile, Resolver};

    /// Has every song.
    struct Rich;

    impl Resolver for Rich {
        fn profile(&self) -> Profile {
            let (name, target_time) = ("rich".to_owned(), Duration::ZERO);
            Profile { name, weight: 1, target_time, is_local_only: false, preference: 1 }
        }

        fn ask(&self, query: &Arc<Query>, answers: &Answers) {
            answers.add(&query.qid, vec![Found { score: Some(1.0), ..Found::default() }]);
        }
    }

    /// A pipeline in which `queries` queries have one result each, which flows into session S.
    async fn fed(queries: usize) -> (Pipeline, Arc<Sessions>) {
        let (pipeline, sessions) = (Pipeline::new(), Arc::<Sessions>::default());
        pipeline.add(Arc::new(Rich));
        for n in 0..queries {
            let [artist, track] = ["a", "b"].map(str::to_owned);
            let query = Query { qid: n.to_string(), artist, track, ..Query::default() };
            let qid = pipeline.resolve(query).unwrap();
            assert!(pipeline.watch(&qid).unwrap().has_more().await);
            sessions.feed("S", pipeline.watch(&qid).unwrap());
        }
        (pipeline, sessions)
    }

    /// Waits until the session alone has its sender.
    async fn until_nothing_feeds(sessions: &Sessions) {
        let ends = async {
            while sessions.table.lock().session("S").unwrap().sender.strong_count() > 1 {
                tokio::task::yield_now().await;
            }
        };
        timeout(testing::DEADLINE, ends).await.expect("a task feeds on");
    }

    #[tokio::test]
    async fn session_that_nobody_opens_keeps_no_task_beyond_its_queries() {
        let (pipeline, sessions) = fed(WAITING_MAX + 4).await;
        let receiver = sessions.table.lock().session("S").unwrap().receiver.take().unwrap();
        let full = async {
            while receiver.len() < WAITING_MAX {
                tokio::task::yield_now().await;
            }
        };
        timeout(testing::DEADLINE, full).await.unwrap();
        for n in 0..WAITING_MAX + 4 {
            assert!(pipeline.cancel(&n.to_string()));
        }
        until_nothing_feeds(&sessions).await;
        assert!(sessions.table.lock().session("S").unwrap().fed.is_empty());
    }

    #[tokio::test]
    async fn query_that_flows_into_a_session_twice_is_told_once() {
        let (pipeline, sessions) = fed(1).await;
        sessions.feed("S", pipeline.watch("0").unwrap());
        let mut flow = sessions.open("S").unwrap();
        assert_eq!(flow.receiver.recv().await.unwrap().0, "0");
        sessions.feed("S", pipeline.watch("0").unwrap());
        pipeline.cancel("0");
        until_nothing_feeds(&sessions).await;
        assert!(flow.receiver.try_recv().is_err());
    }
}
