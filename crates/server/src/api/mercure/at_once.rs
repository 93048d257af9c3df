//! An update as a worker's lane publishes it: without a wait, or not at all.
//!
//! Whatever is not certain to succeed, or may take long, is left to [`super::publish`], with
//! nothing done and nothing counted.

use auth::tokens::Checked;
use engine::LaneBell;
use mercure::{Presented, TokenFields};

use super::{Publisher, Purpose, checked};
use crate::api::at_once::{AnswerAtOnce, AtOnce, RequestAtOnce};
use crate::api::state::Api;
use crate::mercure_hub::Hub;
use crate::updates;

/// Bytes of a token: what it grants is read anew for each update.
const TOKEN_BYTES_MAX: usize = 1024;

/// Topics of an update, and bytes of each: patterns are tried on them.
const TOPICS_MAX: usize = 4;
const TOPIC_BYTES_MAX: usize = 512;

impl Publisher {
    /// Whoever has the token of a backend's request, if that can be said without a wait.
    fn at_once(hub: &Hub, request: &RequestAtOnce<'_>) -> Option<Publisher> {
        let url = hub.config().hub_of(Some(request.host)).ok()?;
        let authorization = [request.authorization?];
        let fields = TokenFields { authorization: &authorization, ..TokenFields::default() };
        let presented = Presented::find(fields, "", None);
        let (token, _) = checked(presented, fields, None, Purpose::Publish).ok()?;
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let Checked::Granted(grant) = hub.publish()?.check_now(&token) else { return None };
        let claims = hub.config().read_claims(grant.claims.as_deref(), &url).ok()?;
        // They would be compiled for each update, and tried.
        if claims.publish().compile_cost() > 0 {
            return None;
        }
        Some(Publisher { claims, url, is_public: false })
    }
}

impl Api {
    /// Publishes the update of a request, if it may be published.
    pub(crate) fn publish_at_once(&self, request: &RequestAtOnce<'_>, bell: LaneBell) -> AtOnce {
        let Some(hub) = &self.hub else { return AtOnce::Elsewhere };
        if self.access.may_be_slowed(request.is_forwarded, request.peer) {
            return AtOnce::Elsewhere;
        }
        let Some(publisher) = Publisher::at_once(hub, request) else { return AtOnce::Elsewhere };
        let Ok(update) = publisher.read(request.body) else { return AtOnce::Elsewhere };
        let are_short = update.topics.iter().all(|topic| topic.len() <= TOPIC_BYTES_MAX);
        let are_few = update.topics.len() <= TOPICS_MAX;
        if !are_few || !are_short || !publisher.may_publish(&update) {
            return AtOnce::Elsewhere;
        }
        let Some(permit) = self.sender.barrier.enter_at_once() else { return AtOnce::Elsewhere };
        let fits = |draft: &_| self.is_for_lanes(draft);
        let posted = updates::post_at_once(&self.sender, &permit, &update, bell, fits);
        let posted = self.posted_now(posted, || {
            let media_type = publisher.claims.dialect().id_content_type();
            AnswerAtOnce::Update { id: update.id, media_type }
        });
        if matches!(posted, AtOnce::Posted { .. }) {
            hub.count_publish(200);
        }
        posted
    }
}
