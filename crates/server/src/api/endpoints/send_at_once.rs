//! `POST /send` as a worker's lane serves it: without a wait, or not at all.
//!
//! Whatever is not certain to succeed is left to [`super::send`], with nothing done and nothing
//! counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use dispatch::outcome::Delivered;
use dispatch::posting::PostedNow;
use engine::{Event, LaneBell, Receipt};
use httpd::object::Object;
use proto::decimal::push_decimal;

use super::event::push_answer;
use super::event_body::EventBody;
use crate::api::state::Api;

/// What a lane has read of a request.
pub(crate) struct SendAtOnce<'r> {
    pub(crate) authorization: Option<&'r str>,
    /// Whether somebody on the way has said for whom it asks.
    pub(crate) is_forwarded: bool,
    pub(crate) peer: IpAddr,
    pub(crate) body: &'r [u8],
}

/// What it comes to.
pub(crate) enum AtOnce {
    /// The workers have it.
    Posted { event: Arc<Event>, receipt: Receipt },
    /// There is no room in a mailbox, or another send is being posted. Nothing is done.
    Busy,
    /// It is not for a lane. Nothing is done.
    Elsewhere,
}

impl Api {
    /// Posts the one event of a request, if it may be posted.
    pub(crate) fn send_at_once(&self, send: SendAtOnce<'_>, bell: LaneBell) -> AtOnce {
        let SendAtOnce { authorization, is_forwarded, peer, body } = send;
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
        let waits_for_disk = self.router.is_always_durable() && self.router.keeps(&outgoing.draft);
        if waits_for_disk || !self.fits(&outgoing.draft) {
            return AtOnce::Elsewhere;
        }
        let Some(permit) = self.sender.barrier.enter_at_once() else { return AtOnce::Elsewhere };
        match self.sender.send_at_once(&permit, outgoing, bell) {
            PostedNow::Posted(event, receipt) => {
                self.count_event();
                self.events_at_once.fetch_add(1, Ordering::Relaxed);
                AtOnce::Posted { event, receipt }
            }
            PostedNow::Busy => AtOnce::Busy,
            PostedNow::TooMuch => AtOnce::Elsewhere,
        }
    }

    /// Appends the answer to a send that has reached `count` connections, head and body; `date` is
    /// what its `Date` field says. What was in `body` is overwritten.
    pub(crate) fn push_http_answer(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        (event, count): (&Event, u32),
        date: &[u8],
    ) {
        body.clear();
        push_answer(body, &Delivered::of(event, count));
        body.push(b'\n');
        out.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ",
        );
        push_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    /// Counts how long a send took.
    pub(crate) fn note_duration(&self, accepted: Instant, over: Instant) {
        self.durations.record(accepted, over);
    }
}
