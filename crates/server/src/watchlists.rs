//! Reads whom users of the Pusher protocol follow in the stored graph, where their app has that as
//! their watchlist.
//!
//! Cost: a page of the graph for each sign-in.

use std::future::poll_fn;

use dispatch::posting::say;
use engine::{Answers, DirectMessage, Followed, Watches};
use graph::Graph;
use hub::IdText;
use pusher::is_user_id;
use pusher::limits::WATCHLIST_USERS_MAX;
use tokio::task::yield_now;

/// How many are read before others have their turn.
const SLICE: usize = 32;

/// Answers for as long as the runtime lives.
pub(crate) async fn answer(watches: Watches, graph: Graph, answers: Answers) {
    loop {
        poll_fn(|context| watches.followed().poll_any(context)).await;
        for _ in 0..SLICE {
            let Some(ask) = watches.followed().take() else { break };
            // Whoever follows nobody has nobody to hear of.
            if let Some(followed) = followed(&graph, ask.user()) {
                say(&answers, ask.conn(), DirectMessage::Followed(Box::new(followed))).await;
            }
        }
        yield_now().await;
    }
}

/// Whom `user` follows; `None` where that is nobody, or cannot be read.
fn followed(graph: &Graph, user: &str) -> Option<Followed> {
    let names = graph.names();
    let id = names.lookup(IdText::parse(user).ok()?)?;
    let page = graph.page_following(id, None, WATCHLIST_USERS_MAX + 1);
    let page = page.inspect_err(|error| tracing::warn!(%error, "a watchlist was not read")).ok()?;
    let ids = page.ids.into_iter().filter_map(|id| names.text(id));
    let mut ids: Vec<String> = ids.filter(|id| is_user_id(id)).collect();
    let is_cut = ids.len() > WATCHLIST_USERS_MAX;
    ids.truncate(WATCHLIST_USERS_MAX);
    (!ids.is_empty()).then_some(Followed { ids, is_cut })
}
