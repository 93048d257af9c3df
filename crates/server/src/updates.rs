//! Posts updates of the Mercure protocol: those of publishers, and the hub's own.

use dispatch::barrier::{WritePermit, WritePermitAtOnce};
use dispatch::posting::{Delivery, PostedNow, Sender};
use dispatch::send_options::SendOptions;
use engine::{LaneBell, Outgoing};
use httpd::problem::ApiProblem;
use hub::{Draft, EventParts, LeftOut, Payload};
use mercure::Update;
use topics::{UpdateFollowers, UpdateKeys, payload};

/// Hands an update to the mailboxes of all workers that have listeners of it, if `fits` lets its
/// event pass. The connections `except` do not hear it.
pub(crate) async fn post(
    sender: &Sender,
    permit: &WritePermit<'_>,
    update: &Update,
    except: LeftOut,
    fits: impl FnOnce(&Draft) -> Result<(), ApiProblem>,
) -> Result<Delivery, ApiProblem> {
    let topics = sender.router.topics().ok_or_else(ApiProblem::not_found)?;
    if sender.cluster.is_some() {
        // Each node begins it where its log has it.
        let keys = UpdateKeys::of(&update.topics, update.is_private).and_then(UpdateKeys::checked);
        let draft = draft(update, &keys.ok_or_else(bad_topic)?)?;
        fits(&draft)?;
        let outgoing = Outgoing { except, ..Outgoing::from(draft) };
        return Ok(sender.send(permit, outgoing, SendOptions::default()).await?);
    }
    let begun = topics.begin(&update.topics, update.is_private, sys::clock::monotonic_ms());
    let (keys, under_way) = begun.ok_or_else(bad_topic)?;
    let draft = draft(update, &keys)?;
    fits(&draft)?;
    let followers = UpdateFollowers::new(topics, &update.topics);
    let outgoing = Outgoing { except, ..Outgoing::from(draft) };
    let delivery = sender.publish(permit, outgoing, &followers).await?;
    if let Delivery::Here { event, .. } = &delivery {
        under_way.posted(event.number(), update.id.as_deref());
    }
    Ok(delivery)
}

/// Likewise on a worker's thread, which is rung by `bell`, if that does not take long. Not in a
/// cluster.
pub(crate) fn post_at_once(
    sender: &Sender,
    permit: &WritePermitAtOnce<'_>,
    update: &Update,
    bell: LaneBell,
    fits: impl FnOnce(&Draft) -> bool,
) -> PostedNow {
    let Some(topics) = sender.router.topics() else { return PostedNow::TooMuch };
    let now_ms = sys::clock::monotonic_ms();
    // Others have the tables.
    let Some(begun) = topics.begin_at_once(&update.topics, update.is_private, now_ms) else {
        return PostedNow::Busy;
    };
    let Some((keys, under_way)) = begun else { return PostedNow::TooMuch };
    let draft = draft(update, &keys).ok().filter(|draft| fits(draft));
    let Some(draft) = draft else { return PostedNow::TooMuch };
    let followers = UpdateFollowers::at_once(topics, &update.topics);
    let posted = sender.publish_at_once(permit, Outgoing::from(draft), &followers, bell);
    if let PostedNow::Posted(event, _) = &posted {
        under_way.posted(event.number(), update.id.as_deref());
    }
    posted
}

/// The event that an update becomes.
fn draft(update: &Update, keys: &UpdateKeys) -> Result<Draft, ApiProblem> {
    let also: Vec<&str> = keys.also.iter().map(String::as_str).collect();
    let data = payload(update);
    Ok(Draft::of_key(EventParts {
        about: &keys.about,
        also: &also,
        name: update.kind.as_deref(),
        from: None,
        payload: Payload::Json(&data),
    })?)
}

fn bad_topic() -> ApiProblem {
    ApiProblem::bad_request("A topic has a control character. Take it out.")
}
