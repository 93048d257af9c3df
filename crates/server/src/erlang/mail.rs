//! Mail for processes: what the router posts for those who are logged in is sent to their nodes.
//!
//! A node that takes too little gets a short time to catch up, in which mail for others waits as
//! well; then its connection ends. So mail is lost only with the connection, and a node that stands
//! still holds up everybody once, for that time.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use engine::{Delivery, GuestMail};
use erlang::term::write;
use erlang::{End, Peer};
use hub::{ConnRef, DisconnectReason};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::office::Office;
use super::payload;
use super::pids::Place;

/// How long mail waits for a node whose buffer is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// Processes that are served in one go, under one lock.
const SLICE: usize = 512;

struct Bell(Arc<Office>);

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.guest.as_fd().as_raw_fd()
    }
}

/// Takes the mail for as long as the runtime lives.
pub(super) async fn run(office: Arc<Office>) -> std::io::Result<()> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types that may lose their descriptor while it is \
                  registered; Bell owns its own until the registration is gone"
    )]
    let bell = AsyncFd::with_interest(Bell(Arc::clone(&office)), Interest::READABLE)?;
    loop {
        while let Some(mail) = office.guest.take() {
            match mail {
                GuestMail::Deliver(delivery) => deliver(&office, delivery).await,
                GuestMail::Close(reason, delivery) => close(&office, reason, delivery).await,
            }
        }
        if office.guest.may_sleep() {
            // Each ring is a report of its own, so nothing has to be read.
            bell.readable().await?.clear_ready();
            office.guest.awake();
        } else {
            yield_now().await;
        }
    }
}

async fn deliver(office: &Office, delivery: Delivery) {
    let Some(event) = delivery.event().cloned() else { return };
    let message = payload::message_of(&event);
    serve(office, delivery, |_, peer, to| peer.send_to(to, message)).await;
}

/// The application has logged the id out: its processes hear that they hear no more.
async fn close(office: &Office, reason: DisconnectReason, delivery: Delivery) {
    let mut message = Vec::new();
    write::tuple(&mut message, 2);
    write::atom(&mut message, "router_closed");
    write::atom(&mut message, reason.as_str());
    serve(office, delivery, |place, peer, to| {
        office.closed(place, peer, to);
        peer.send_to(to, &message)
    })
    .await;
}

/// Does `act` for each target that is still there, and counts those for which it was of use.
async fn serve(
    office: &Office,
    mut delivery: Delivery,
    act: impl Fn(Place, &Peer, [u32; 3]) -> bool,
) {
    let targets = delivery.targets().to_vec();
    let mut rest = &targets[..];
    while !rest.is_empty() {
        let mut crowded: Option<Arc<Peer>> = None;
        let mut served = 0;
        for &target in rest.iter().take(SLICE) {
            if let Some((place, peer, to)) = office.reach(place_of(target)) {
                if !peer.has_room_for_mail() {
                    crowded = Some(peer);
                    break;
                }
                if act(place, &peer, to) {
                    delivery.count_one();
                    office.counts.deliveries.add(1);
                } else {
                    office.counts.dropped.add(1);
                }
            } else {
                office.counts.dropped.add(1);
            }
            served += 1;
        }
        rest = &rest[served..];
        match crowded {
            Some(peer) => {
                if timeout(PATIENCE, peer.room_for_mail()).await.is_err() {
                    peer.close(End::Slow);
                }
            }
            None if rest.is_empty() => return,
            None => yield_now().await,
        }
    }
}

fn place_of(target: ConnRef) -> Place {
    Place { slot: target.slot() as u32, generation: target.generation() }
}
