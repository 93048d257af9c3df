//! What a backend asks about channels: who hears them, in a cluster over all nodes. The counts are
//! those of the connections that are subscribed at that moment. A member counts until others were
//! told that it has left.

use std::collections::BTreeSet;

use dispatch::channels::{ChannelsAsked, ChannelsFound, WhichChannels};
use engine::channel_key;
use httpd::problem::ApiProblem;
use hub::{IdText, Key};
use pusher::http::{self, ApiRefusal, Attributes, Cached, Call, ChannelsQuery, Info};
use pusher::{Access, App, Channel, plain_text};

use super::{SignedRequest, refused, well_formed};
use crate::api::state::Api;

/// An answer, and whether its counts may be too low: a node has not answered.
pub(super) type Looked<T> = (T, bool);

/// The answer to a request that changes nothing.
pub(super) async fn answer(
    api: &Api,
    signed: &SignedRequest<'_>,
) -> Result<Looked<String>, ApiProblem> {
    let SignedRequest { app, call, query } = signed;
    let app = &*app.app;
    Ok(match call {
        Call::Channel(name) => {
            let channel = well_formed(name);
            let info = http::channel_info(query, channel).map_err(refused)?;
            let key = channel_key(&app.id, channel);
            let found = of_keys(api, vec![key.clone()], info.user_count).await;
            let attributes = attributes_in(api, &found, &key, info);
            (http::channel(found.connections(&key) > 0, &attributes), found.at_least)
        }
        Call::ChannelUsers(name) => {
            let channel = well_formed(name);
            if channel.access() != Access::Presence {
                return Err(refused(ApiRefusal::NotPresence));
            }
            let key = channel_key(&app.id, channel);
            let found = of_keys(api, vec![key.clone()], true).await;
            (http::users(&found.users(&key).collect::<Vec<_>>()), found.at_least)
        }
        Call::Channels => {
            let asked = ChannelsQuery::parse(query).map_err(refused)?;
            channels(api, app, asked).await?
        }
        Call::Connections => {
            let which = WhichChannels::App(app.id.clone());
            let found = ask(api, ChannelsAsked { which, users: false }).await;
            let connections = found.connections(&app.id);
            (serde_json::json!({ "connections": connections }).to_string(), found.at_least)
        }
        Call::Events
        | Call::BatchEvents
        | Call::ChannelEvents(_)
        | Call::TerminateConnections(_) => return Err(refused(ApiRefusal::Method("POST"))),
    })
}

/// What was asked for of each channel, which can have it, in their order.
pub(super) async fn attributes(
    api: &Api,
    app: &App,
    wanted: &[(Channel<'_>, Info)],
) -> Looked<Vec<Attributes>> {
    let key = |channel: Channel<'_>| channel_key(&app.id, channel);
    let is_counted = |info: &Info| info.user_count || info.subscription_count;
    let counted = wanted.iter().filter(|(_, info)| is_counted(info));
    // A batch may name a channel with each of its events.
    let keys: BTreeSet<String> = counted.map(|(channel, _)| key(*channel)).collect();
    let users = wanted.iter().any(|(_, info)| info.user_count);
    let found = match keys.is_empty() {
        true => ChannelsFound::default(),
        false => of_keys(api, keys.into_iter().collect(), users).await,
    };
    let told =
        |(channel, info): &(Channel<'_>, Info)| attributes_in(api, &found, &key(*channel), *info);
    (wanted.iter().map(told).collect(), found.at_least)
}

async fn of_keys(api: &Api, keys: Vec<String>, users: bool) -> ChannelsFound {
    ask(api, ChannelsAsked { which: WhichChannels::Keys(keys), users }).await
}

async fn ask(api: &Api, asked: ChannelsAsked) -> ChannelsFound {
    api.sender.channels(asked).await
}

/// What was asked for of the channel with this key.
fn attributes_in(api: &Api, found: &ChannelsFound, key: &str, info: Info) -> Attributes {
    Attributes {
        user_count: info.user_count.then(|| found.users(key).count() as u64),
        subscription_count: info.subscription_count.then(|| found.connections(key)),
        cache: info.cache.then(|| cached(api, key)),
    }
}

/// The last event that a channel keeps for new subscribers.
fn cached(api: &Api, key: &str) -> Option<Cached> {
    let (event, ttl) = api.router.cached_event(IdText::of_key(key).ok()?)?;
    Some(Cached { data: plain_text(event.data()), ttl })
}

/// The channels that have subscribers.
async fn channels(
    api: &Api,
    app: &App,
    asked: ChannelsQuery,
) -> Result<Looked<String>, ApiProblem> {
    let ChannelsQuery { prefix, user_count } = asked;
    let which = WhichChannels::Named { app: app.id.clone(), prefix };
    let found = ask(api, ChannelsAsked { which, users: user_count }).await;
    let info = Info { user_count, ..Info::default() };
    let told = found.channels.keys().filter_map(|key| {
        let name = Key::parse(key)?.name;
        let info = info.of_channel(Channel::parse(name).ok()?);
        Some((name, attributes_in(api, &found, key, info)))
    });
    Ok((http::channels(&told.collect::<Vec<_>>()), found.at_least))
}
