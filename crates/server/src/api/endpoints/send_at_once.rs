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
use engine::{Event, LaneBell, Receipt, Relays};
use httpd::object::Object;
use hub::{Draft, IdText};
use proto::decimal::push_decimal;

use super::event::{EventBody, push_answer};
use crate::api::state::Api;

/// What a lane has read of a request.
pub(crate) struct SendAtOnce<'r> {
    pub(crate) authorization: Option<&'r str>,
    /// Whether somebody on the way has said for whom it asks.
    pub(crate) is_forwarded: bool,
    pub(crate) peer: IpAddr,
    pub(crate) body: &'r [u8],
    /// Who may answer in the lane's place, if all of the audience is with that worker.
    pub(crate) relays: Relays<'r>,
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
    pub(crate) fn send_at_once(&self, send: SendAtOnce<'_>, bell: &LaneBell) -> AtOnce {
        let SendAtOnce { authorization, is_forwarded, peer, body, relays, .. } = send;
        let permission = self.access.permission_at_once(authorization, is_forwarded, peer);
        let body: Option<Object<EventBody<'_>>> = serde_json::from_slice(body).ok();
        let (Some(permission), Some(Object(body))) = (permission, body) else {
            return AtOnce::Elsewhere;
        };
        let Ok(about) = IdText::parse(&body.about.0) else { return AtOnce::Elsewhere };
        if body.key.is_some() || !permission.lets_send_about(&body.about.0) || !self.fits(&body) {
            return AtOnce::Elsewhere;
        }
        let Some(permit) = self.sender.barrier.enter_at_once() else { return AtOnce::Elsewhere };
        let draft = Draft::new(&body.about.0, body.data.get());
        match self.sender.send_at_once(&permit, about, draft, bell.clone(), relays) {
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
