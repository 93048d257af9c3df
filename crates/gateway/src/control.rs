//! What nodes tell each other beside messages: processes that are gone, monitors, links.
//!
//! None of it waits for anything, and none of it is kept.

use erlang::control::{no_process, unlinked};
use erlang::{Control, Peer, Pid, Term};

use super::gateway::{Gateway, process_ref_of};
use super::service::Service;

/// Does what a control message that carries no message asks for.
pub(super) fn act(gateway: &Gateway, peer: &Peer, control: Control<'_>) {
    match control {
        Control::Monitor { from, to, reference } => monitor(gateway, peer, from, to, reference),
        Control::Down(reference) => {
            if let Some(words) = reference.words()
                && !gateway.subscribers.down(peer, words)
            {
                gateway.down(peer, process_ref_of(words));
            }
        }
        Control::Unlink { id, from, to } => drop(peer.send(|out| unlinked(out, id, from, to))),
        Control::Send(_) | Control::SendToName(_) | Control::Other => {}
    }
}

/// Counts a frame that is no message of the protocol.
pub(super) fn malformed(gateway: &Gateway, peer: &Peer) {
    gateway.counts.count_unknown(peer.name(), "what is no message of its protocol");
}

/// Our processes end with the connection, which the other node notices by itself. Whom we do not
/// have is gone already.
fn monitor(gateway: &Gateway, peer: &Peer, from: Pid<'_>, to: Term<'_>, reference: Term<'_>) {
    let service = match (to.atom(), to.pid()) {
        (Some(name), _) => Service::of_name(name),
        (_, Some(pid)) => Service::of_pid(pid, gateway.pid(Service::Router)),
        _ => None,
    };
    if service.is_none() {
        peer.send(|out| no_process(out, to, from, reference));
    }
}
