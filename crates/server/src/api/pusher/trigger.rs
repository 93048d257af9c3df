//! Events that a backend triggers: on each channel that it names one event of its own, since a
//! client of two of them hears two frames.
//!
//! Before the first is posted, all are known to fit. A full mailbox may still end a request in the
//! middle. It is answered 503, and what was posted before stays so, as in a stream of sends.

use dispatch::barrier::WritePermit;
use engine::{Outgoing, channel_key, shared_payload};
use httpd::problem::ApiProblem;
use hub::{ConnectionId, Draft, EventParts, Payload};
use pusher::http::{Info, Trigger, batch, triggered};
use pusher::{App, Channel, SocketId};

use super::look::{self, Looked};
use super::well_formed;
use crate::api::endpoints::event::Posted;
use crate::api::state::Api;

/// Posts all of it and waits until the workers have taken it, in a cluster those of all nodes: how
/// many connections heard.
pub(super) async fn post_all(
    api: &Api,
    permit: WritePermit<'_>,
    app: &App,
    triggers: &[Trigger],
) -> Result<Looked<u64>, ApiProblem> {
    for trigger in triggers {
        for channel in &trigger.channels {
            api.check_fits(&outgoing(api, app, trigger, channel)?.draft)?;
        }
    }
    let mut deliveries = Vec::new();
    for trigger in triggers {
        for channel in &trigger.channels {
            let outgoing = outgoing(api, app, trigger, channel)?;
            let Posted { delivery, .. } = api.post(&permit, outgoing, None, None).await?;
            deliveries.push(delivery);
        }
    }
    drop(permit);
    let (mut heard, mut at_least) = (0, false);
    for delivery in deliveries {
        let delivered = delivery.answer().await?;
        heard += u64::from(delivered.count);
        at_least |= delivered.at_least;
    }
    Ok((heard, at_least))
}

/// One event on one channel: about the id that is shared with it, if there is one.
fn outgoing(
    api: &Api,
    app: &App,
    trigger: &Trigger,
    channel: &str,
) -> Result<Outgoing, ApiProblem> {
    let key = channel_key(&app.id, well_formed(channel));
    let shared = api.pusher.as_ref().and_then(|apps| apps.shared_id(&key));
    let draft = Draft::of_key(EventParts {
        about: shared.as_deref().unwrap_or(&key),
        also: &[],
        name: Some(&trigger.name),
        from: None,
        payload: match shared {
            Some(_) => shared_payload(&trigger.data),
            None => Payload::Text(&trigger.data),
        },
    })?;
    // One that no connection of ours can have leaves out nobody.
    let except = trigger.except.and_then(SocketId::bits).and_then(ConnectionId::of_bits);
    let outgoing = match shared {
        Some(_) => Outgoing::from(draft),
        None => Outgoing::on_channel(draft),
    };
    Ok(Outgoing { except: except.into(), ..outgoing })
}

/// What is asked of the channels of an event.
fn wanted(trigger: &Trigger) -> impl Iterator<Item = (Channel<'_>, Info)> {
    trigger.channels.iter().map(|name| {
        let channel = well_formed(name);
        (channel, trigger.info.of_channel(channel))
    })
}

/// The answer to it, with what was asked of its channels.
pub(super) async fn told(
    api: &Api,
    app: &App,
    triggers: &[Trigger],
    is_batch: bool,
) -> Looked<String> {
    let asking = || triggers.iter().filter(|trigger| !trigger.info.is_empty());
    let wanted: Vec<_> = asking().flat_map(wanted).collect();
    let (attributes, at_least) = look::attributes(api, app, &wanted).await;
    let mut attributes = attributes.into_iter();
    let text = if is_batch {
        // Each has one channel.
        let one = |trigger: &Trigger| {
            (!trigger.info.is_empty()).then(|| attributes.next().unwrap_or_default())
        };
        batch(&triggers.iter().map(one).collect::<Vec<_>>())
    } else if wanted.is_empty() {
        triggered(None)
    } else {
        let names = asking().flat_map(|trigger| &trigger.channels).map(String::as_str);
        triggered(Some(&names.zip(attributes).collect::<Vec<_>>()))
    };
    (text, at_least)
}
