//! The session with one node: what it asks for is done in the order in which it came.
//!
//! Three parts run side by side, in turn. The [`reader`] reads, whatever others wait for. So the
//! other node's buffers do not fill because of it ("distribution buffer busy", which stops its
//! processes). What it has read waits in an [`Inbox`] with a bound. The [`Handler`] does what is
//! asked for, and waits where it must. The third hands over mail that had to wait for the node
//! ([`mail::deliver_waiting`]).

use std::sync::Arc;

use erlang::{End, Session};

use super::gateway::Gateway;
use super::handler::Handler;
use super::inbox::Inbox;
use super::{mail, names, reader};

/// Serves the node of `session` until the connection ends or the server stops.
pub(super) async fn run(gateway: Arc<Gateway>, mut session: Session) {
    let peer = Arc::clone(session.peer());
    let inbox = Inbox::new(gateway.queue_bytes_max);
    let node = gateway.connected(&peer);
    tracing::info!("the Erlang node {} is connected", peer.name());
    if peer.is_published() {
        names::ask(&gateway, &peer);
    }
    let mut handler = Handler::new(&gateway, &node);
    let serving = async {
        let reading = async {
            let end = reader::run(&gateway, &mut session, &inbox).await;
            inbox.close();
            end
        };
        let ((), end) = tokio::join!(handler.run(&inbox), reading);
        node.close();
        end
    };
    let (end, ()) = tokio::join!(serving, mail::deliver_waiting(&gateway, &node));
    if end == End::Stopped {
        peer.flushed().await;
    }
    drop(session);
    let left = gateway.disconnected(&peer).await;
    gateway.counts.ended(end);
    let (name, why) = (peer.name(), end.as_str());
    tracing::info!("the Erlang node {name} is gone ({why}); {left} processes are logged out");
}
