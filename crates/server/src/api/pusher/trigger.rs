//! Events that a backend triggers: on each channel that it names one event of its own, since a
//! client of two of them hears two frames.
//!
//! Before the first is posted, all are known to fit. A full mailbox may still end a request in the
//! middle: it is answered 503, and what was posted before stays so, as in a stream of sends.

use dispatch::barrier::WritePermit;
use engine::{Outgoing, channel_key};
use httpd::problem::ApiProblem;
use hub::{ConnectionId, Draft, EventParts, Payload};
use pusher::http::{Attributes, Trigger, batch, triggered};
use pusher::{App, SocketId};

use super::{look, well_formed};
use crate::api::endpoints::event::Posted;
use crate::api::state::Api;

/// Posts all of it and waits until the workers have taken it: how many connections heard.
pub(super) async fn post_all(
    api: &Api,
    permit: WritePermit<'_>,
    app: &App,
    triggers: &[Trigger],
) -> Result<u64, ApiProblem> {
    for trigger in triggers {
        for channel in &trigger.channels {
            api.check_fits(&outgoing(app, trigger, channel)?.draft)?;
        }
    }
    let mut deliveries = Vec::new();
    for trigger in triggers {
        for channel in &trigger.channels {
            let outgoing = outgoing(app, trigger, channel)?;
            let Posted { delivery, .. } = api.post(&permit, outgoing, None, None).await?;
            deliveries.push(delivery);
        }
    }
    drop(permit);
    let mut heard = 0;
    for delivery in deliveries {
        heard += u64::from(delivery.answer().await?.count);
    }
    Ok(heard)
}

/// One event on one channel.
fn outgoing(app: &App, trigger: &Trigger, channel: &str) -> Result<Outgoing, ApiProblem> {
    let key = channel_key(&app.id, well_formed(channel));
    let draft = Draft::of_key(EventParts {
        about: &key,
        also: &[],
        name: Some(&trigger.name),
        from: None,
        payload: Payload::Text(&trigger.data),
    })?;
    // One that no connection of ours can have leaves out nobody.
    let except = trigger.except.and_then(SocketId::bits).and_then(ConnectionId::of_bits);
    Ok(Outgoing { except: except.into(), ..Outgoing::on_channel(draft) })
}

/// The answer to it, with what was asked of its channels.
pub(super) fn told(api: &Api, app: &App, triggers: &[Trigger], is_batch: bool) -> String {
    let of = |trigger: &Trigger, name: &str| {
        let channel = well_formed(name);
        look::attributes(api, app, channel, trigger.info.of_channel(channel))
    };
    if is_batch {
        let one = |trigger: &Trigger| {
            (!trigger.info.is_empty()).then(|| of(trigger, &trigger.channels[0]))
        };
        let events: Vec<Option<Attributes>> = triggers.iter().map(one).collect();
        return batch(&events);
    }
    let Some(trigger) = triggers.first().filter(|trigger| !trigger.info.is_empty()) else {
        return triggered(None);
    };
    let channels = trigger.channels.iter().map(|name| (name.as_str(), of(trigger, name)));
    let channels: Vec<(&str, Attributes)> = channels.collect();
    triggered(Some(&channels))
}
