//! Global names: `global:whereis_name(router)` finds us on every node of a cluster.
//!
//! A hidden node takes no part in the protocol by which nodes agree on global names, so it asks
//! others to register ours, as nodes of other languages do. At once and every few seconds each
//! connected node that takes part is asked where the name is, and to register it where it is not.
//! It does that under `global`'s own lock with all nodes that it knows, and all of these monitor
//! our pid, which connects them to us. A node that loses us forgets the name. A node that another
//! Encke has named keeps that one, until it is gone and the next round finds the name free.
//!
//! There is no state: what was asked comes back in the tag of the answer.

use std::sync::Arc;

use erlang::control;
use erlang::term::{View, write};
use erlang::{Peer, Term};

use super::gateway::Gateway;
use super::service::Service;

/// Asks where our names are.
pub(super) fn ask(gateway: &Gateway, peer: &Peer) {
    for service in Service::GLOBAL {
        call(gateway, peer, "whereis", "whereis_name", service, false);
    }
}

/// Hears what `peer` says of the name `name` when it was asked to do `what`.
pub(super) fn answered(
    gateway: &Arc<Gateway>,
    peer: &Peer,
    what: Term<'_>,
    name: Term<'_>,
    said: Term<'_>,
) {
    let service = name.atom().and_then(Service::of_name);
    let Some(service) = service.filter(|service| Service::GLOBAL.contains(service)) else { return };
    let is = |what: Term<'_>, word| what.atom().is_some_and(|atom| atom.is(word));
    let (node, name) = (peer.name(), service.name());
    match said.view() {
        View::Pid(pid) if is(what, "whereis") => {
            if Service::of_pid(pid, gateway.pid(service)) != Some(service) {
                let other = pid.node.text();
                tracing::debug!("on {node} the global name {name} is a process of {other}");
            }
        }
        View::Atom(_) if is(what, "whereis") && is(said, "undefined") => {
            call(gateway, peer, "register", "register_name", service, true);
        }
        View::Atom(_) if is(what, "register") && is(said, "yes") => {
            tracing::info!("{node} and its cluster have the global name {name}");
        }
        // Somebody else was faster.
        View::Atom(_) if is(what, "register") && is(said, "no") => {}
        _ => gateway.counts.count_unknown(node, "an answer about a global name that is none"),
    }
}

/// Calls a function of `global` with the name of `service`, and its pid if that is wanted.
fn call(
    gateway: &Gateway,
    peer: &Peer,
    what: &str,
    function: &str,
    service: Service,
    with_pid: bool,
) {
    let from = gateway.pid(Service::Names);
    peer.send(|out| {
        control::send_to_name(out, from, "rex", |out| {
            write::tuple(out, 3);
            write::atom(out, "$gen_call");
            write::tuple(out, 2);
            from.write(out);
            write::tuple(out, 2);
            write::atom(out, what);
            write::atom(out, service.name());
            // What `rpc:call(Node, global, Function, Arguments)` asks for.
            write::tuple(out, 5);
            for word in ["call", "global", function] {
                write::atom(out, word);
            }
            write::list(out, 1 + usize::from(with_pid));
            write::atom(out, service.name());
            if with_pid {
                gateway.pid(service).write(out);
            }
            write::nil(out);
            write::atom(out, "user");
        });
    });
}
