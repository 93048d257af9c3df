//! `POST /send` as a worker's lane serves it: without a wait, or not at all.
//!
//! Whatever is not certain to succeed is left to [`super::send`], with nothing done and nothing
//! counted.

use engine::LaneBell;
use httpd::object::Object;

use super::event_body::EventBody;
use crate::api::at_once::{AnswerAtOnce, AtOnce, RequestAtOnce};
use crate::api::state::Api;

impl Api {
    /// Posts the one event of a request, if it may be posted.
    pub(crate) fn send_at_once(&self, request: &RequestAtOnce<'_>, bell: LaneBell) -> AtOnce {
        let RequestAtOnce { authorization, is_forwarded, peer, body, .. } = *request;
        let permission = self.access.permission_at_once(authorization, is_forwarded, peer);
        let body: Option<Object<EventBody<'_>>> = serde_json::from_slice(body).ok();
        let (Some(permission), Some(Object(body))) = (permission, body) else {
            return AtOnce::Elsewhere;
        };
        let may_send = body.about.iter().all(|about| permission.lets_send_about(about));
        // The audience of several is seldom small.
        if body.key.is_some() || body.durable || body.about.are_several() || !may_send {
            return AtOnce::Elsewhere;
        }
        let Ok(outgoing) = body.outgoing() else { return AtOnce::Elsewhere };
        if !self.is_for_lanes(&outgoing.draft) {
            return AtOnce::Elsewhere;
        }
        let Some(permit) = self.sender.barrier.enter_at_once() else { return AtOnce::Elsewhere };
        let posted = self.sender.send_at_once(&permit, outgoing, bell);
        self.posted_now(posted, || AnswerAtOnce::Event)
    }
}
