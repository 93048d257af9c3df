//! What a backend asks about channels: who hears them. The counts are those of the connections that
//! are subscribed at that moment; a member counts until others were told that it has left.

use std::sync::Arc;

use engine::channel_key;
use httpd::problem::ApiProblem;
use hub::{IdText, Key, MemberList, Names, Space};
use pusher::http::{self, ApiRefusal, Attributes, Cached, Call, ChannelsQuery, Info};
use pusher::{Access, App, Channel, plain_text};
use tokio::task::spawn_blocking;

use super::{SignedRequest, refused, well_formed};
use crate::api::state::Api;

/// The answer to a request that changes nothing.
pub(super) async fn answer(api: &Api, signed: &SignedRequest<'_>) -> Result<String, ApiProblem> {
    let SignedRequest { app, call, query } = signed;
    Ok(match call {
        Call::Channel(name) => {
            let channel = well_formed(name);
            let info = http::channel_info(query, channel).map_err(refused)?;
            let is_occupied = subscribers(api, &app.app, channel) > 0;
            http::channel(is_occupied, &attributes(api, &app.app, channel, info))
        }
        Call::ChannelUsers(name) => {
            let channel = well_formed(name);
            if channel.access() != Access::Presence {
                return Err(refused(ApiRefusal::NotPresence));
            }
            let list = members(api, &app.app, channel);
            let subs = list.members.iter().flatten().filter_map(|(sub, _)| Key::parse(sub));
            http::users(&subs.map(|key| key.name).collect::<Vec<_>>())
        }
        Call::Channels => {
            let asked = ChannelsQuery::parse(query).map_err(refused)?;
            channels(api, &app.app, asked).await?
        }
        Call::Connections => {
            serde_json::json!({ "connections": app.usage.connections() }).to_string()
        }
        Call::Events
        | Call::BatchEvents
        | Call::ChannelEvents(_)
        | Call::TerminateConnections(_) => return Err(refused(ApiRefusal::Method("POST"))),
    })
}

/// What was asked for of a channel that can have it.
pub(super) fn attributes(api: &Api, app: &App, channel: Channel<'_>, info: Info) -> Attributes {
    Attributes {
        user_count: info.user_count.then(|| members(api, app, channel).count as u64),
        subscription_count: info.subscription_count.then(|| subscribers(api, app, channel)),
        cache: info.cache.then(|| cached(api, app, channel)),
    }
}

/// The last event that a channel keeps for new subscribers.
fn cached(api: &Api, app: &App, channel: Channel<'_>) -> Option<Cached> {
    let key = channel_key(&app.id, channel);
    let (event, ttl) = api.router.cached_event(IdText::of_key(&key).ok()?)?;
    Some(Cached { data: plain_text(event.data()), ttl })
}

/// How many connections are subscribed to a channel.
fn subscribers(api: &Api, app: &App, channel: Channel<'_>) -> u64 {
    let key = channel_key(&app.id, channel);
    IdText::of_key(&key).map_or(0, |key| api.router.connections(key) as u64)
}

/// Who is in a presence channel.
fn members(api: &Api, app: &App, channel: Channel<'_>) -> MemberList {
    let key = channel_key(&app.id, channel);
    let room = IdText::of_key(&key).ok().and_then(|key| api.router.names().lookup(key));
    match (api.watches(), room) {
        (Some(watches), Some(room)) => watches.members().list(room),
        _ => MemberList { count: 0, members: Some(Vec::new()) },
    }
}

/// The channels that have subscribers. All names are walked, one such walk at a time.
async fn channels(api: &Api, app: &App, asked: ChannelsQuery) -> Result<String, ApiProblem> {
    let ChannelsQuery { prefix, user_count } = asked;
    let busy = |_| ApiProblem::starting_or_stopping();
    let walk = Arc::clone(&api.graph_walks).acquire_owned().await.map_err(busy)?;
    let (names, id) = (Arc::clone(api.router.names()), app.id.clone());
    // Fails only while the runtime ends.
    let found = spawn_blocking(move || (named(&names, &id, &prefix), walk)).await;
    let (mut found, walk) = found.map_err(|_| ApiProblem::starting_or_stopping())?;
    found.retain(|(id, _)| api.router.is_online(*id));
    drop(walk);
    let info = Info { user_count, ..Info::default() };
    let told = found.iter().map(|(_, name)| {
        let channel = well_formed(name);
        (name.as_str(), attributes(api, app, channel, info.of_channel(channel)))
    });
    Ok(http::channels(&told.collect::<Vec<_>>()))
}

/// The channels of the app whose names begin with `prefix`, also those that nobody hears any more.
fn named(names: &Names, app: &str, prefix: &str) -> Vec<(hub::Id, String)> {
    let mut found = Vec::new();
    names.visit_keys(|id, text| {
        let Some(key) = Key::parse(text).filter(|key| key.app == app) else { return };
        let is_channel = matches!(key.space, Space::Channel | Space::CacheChannel);
        if is_channel && key.name.starts_with(prefix) {
            found.push((id, key.name.to_owned()));
        }
    });
    found
}
