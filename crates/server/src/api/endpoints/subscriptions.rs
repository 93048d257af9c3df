//! `POST /subscriptions/add` and `/subscriptions/remove`: an array of pairs, or one a line.
//!
//! An array is one transaction: all of it is stored, or nothing. A stream is stored batch by batch
//! as it comes, so it may be of any length, and is answered once, at its end, when all of it is
//! durable. A bad line ends it: every line before that one is stored and nothing from it on, and
//! the problem tells how many of them were new. Since adding and removing are idempotent, the whole
//! stream may simply be sent again.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use bytes::Bytes;
use dispatch::barrier::NoPermit;
use dispatch::successor::upgrade_hangs;
use graph::Pair;
use httpd::body::{BodyKind, Pieces, read_whole};
use httpd::id::IdField;
use httpd::json::Json;
use httpd::lines::{Line, Lines};
use httpd::object::Object;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;
use serde::{Deserialize, Serialize};

use crate::api::access::Permission;
use crate::api::state::Api;

/// The largest array, about 150,000 pairs.
const ARRAY_BYTES_MAX: usize = 8 << 20;

/// Pairs of a stream that are stored in one request to the graph, as many as its writer takes into
/// one transaction: 3 million random pairs took 30 s by 8,192 and 13 s by 65,536. About 3 MB.
const BATCH_PAIRS: usize = 65_536;

/// A subscription as a client writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairBody<'a> {
    #[serde(borrow)]
    subscriber: IdField<'a>,
    #[serde(borrow)]
    subscribee: IdField<'a>,
}

impl PairBody<'_> {
    fn check(&self) -> Result<Pair, ApiProblem> {
        Ok(Pair::parse(&self.subscriber.0, &self.subscribee.0)?)
    }
}

/// How many of the pairs were new, or were there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Changed {
    Added(u64),
    Removed(u64),
}

#[derive(Clone, Copy)]
enum Change {
    Add,
    Remove,
}

impl Change {
    fn answer(self, count: u64) -> Json<Changed> {
        Json(match self {
            Change::Add => Changed::Added(count),
            Change::Remove => Changed::Removed(count),
        })
    }

    fn cut_short(self, problem: ApiProblem, count: u64) -> ApiProblem {
        match self {
            Change::Add => problem.after_adding(count),
            Change::Remove => problem.after_removing(count),
        }
    }
}

pub(crate) async fn add(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Json<Changed>, ApiProblem> {
    change(&api, Change::Add, request).await
}

pub(crate) async fn remove(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Json<Changed>, ApiProblem> {
    change(&api, Change::Remove, request).await
}

/// What is to be done with the pairs of a request, which has this head.
struct Changing<'r> {
    api: &'r Api,
    head: &'r Parts,
    change: Change,
}

async fn change(api: &Api, change: Change, request: Request) -> Result<Json<Changed>, ApiProblem> {
    let kind = BodyKind::of(request.headers())?;
    let permission = Permission::of(request.extensions())?;
    let (head, body) = request.into_parts();
    let changing = Changing { api, head: &head, change };
    let count = match kind {
        BodyKind::Json => changing.store(array(body, &api.idle_limit).await?).await?,
        BodyKind::Ndjson => {
            let mut stored = 0;
            match changing.stream(body, &permission, &mut stored).await {
                Ok(()) => stored,
                Err(problem) => return Err(change.cut_short(problem, stored)),
            }
        }
    };
    Ok(change.answer(count))
}

async fn array(body: Body, idle_limit: &IdleLimit) -> Result<Vec<Pair>, ApiProblem> {
    let bytes = read_whole(body, ARRAY_BYTES_MAX, idle_limit).await?;
    let bodies: Vec<Object<PairBody<'_>>> =
        serde_json::from_slice(&bytes).map_err(|error| ApiProblem::bad_json(&error))?;
    let check = |(at, Object(body)): (usize, &Object<PairBody<'_>>)| {
        body.check().map_err(|problem| problem.about(&format!("Pair {} of the array", at + 1)))
    };
    bodies.iter().enumerate().map(check).collect()
}

impl Changing<'_> {
    /// Stores the lines of `body` batch by batch and adds to `stored` what each of them changed.
    async fn stream(
        &self,
        body: Body,
        permission: &Permission,
        stored: &mut u64,
    ) -> Result<(), ApiProblem> {
        let api = self.api;
        let mut body = Pieces::of_stream(body, &api.idle_limit);
        let (mut lines, mut batch) = (Lines::default(), Vec::new());
        let mut reading = true;
        while reading {
            let piece = next_piece(api, &mut body).await;
            let mut fault = None;
            match piece {
                // A key may be revoked while its stream goes on.
                Ok(Some(piece)) => match api.access.check(permission) {
                    Ok(()) => lines.push(piece),
                    Err(problem) => fault = Some(problem.on_line(lines.next_number())),
                },
                Ok(None) => reading = false,
                Err(problem) => fault = Some(problem.on_line(lines.next_number())),
            }
            while fault.is_none() {
                let next = lines.next_line();
                let last = if reading || next.is_some() { None } else { lines.finish() };
                let Some(line) = next.or(last) else { break };
                match read_line(&line) {
                    Ok(pair) => batch.push(pair),
                    Err(problem) => fault = Some(problem),
                }
                if batch.len() >= BATCH_PAIRS {
                    *stored += self.store(std::mem::take(&mut batch)).await?;
                }
            }
            if let Some(problem) = fault {
                *stored += self.store(batch).await?;
                return Err(problem);
            }
        }
        *stored += self.store(batch).await?;
        Ok(())
    }

    /// Stores `pairs`, or has them stored by who has taken the graph over.
    async fn store(&self, pairs: Vec<Pair>) -> Result<u64, ApiProblem> {
        if pairs.is_empty() {
            return Ok(0);
        }
        let (sender, adds) = (&self.api.sender, matches!(self.change, Change::Add));
        let successor = match sender.barrier.enter().await {
            Ok(permit) => return Ok(sender.change(&permit, adds, pairs).await?),
            Err(NoPermit::TooLong) => return Err(upgrade_hangs()),
            Err(NoPermit::Moved(successor)) => successor,
        };
        let asked = successor.ask_with(self.head, "application/x-ndjson", lines(&pairs));
        let answer = asked.await?;
        let changed: Changed =
            serde_json::from_slice(&answer).map_err(|_| ApiProblem::stopping())?;
        let (Changed::Added(count) | Changed::Removed(count)) = changed;
        Ok(count)
    }
}

/// The next piece of a stream; a problem when it breaks off, or when the server is stopping.
async fn next_piece(api: &Api, body: &mut Pieces) -> Result<Option<Bytes>, ApiProblem> {
    tokio::select! {
        biased;
        () = api.stop.cancelled() => Err(ApiProblem::stopping()),
        piece = body.next() => piece,
    }
}

fn read_line(line: &Line) -> Result<Pair, ApiProblem> {
    let text = line.text()?;
    let Object(body): Object<PairBody<'_>> =
        serde_json::from_slice(text).map_err(|error| ApiProblem::bad_line(&error, line.number))?;
    body.check().map_err(|problem| problem.on_line(line.number))
}

/// `pairs` as a stream has them. Ids that are integers may stand there as text.
fn lines(pairs: &[Pair]) -> Bytes {
    let mut lines = Vec::with_capacity(pairs.len() * 64);
    for Pair { subscriber, subscribee } in pairs {
        let line = serde_json::json!({
            "subscriber": subscriber.as_text().to_string(),
            "subscribee": subscribee.as_text().to_string(),
        });
        lines.extend_from_slice(line.to_string().as_bytes());
        lines.push(b'\n');
    }
    lines.into()
}
