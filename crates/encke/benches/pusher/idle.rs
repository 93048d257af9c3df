//! Bytes of connections that say nothing: in no channel, in one, and for each of four further ones.

use sys::process;

use crate::app::{AppServer, open, subscribe};
use crate::harness::Socket;
use crate::{Outcome, Plan, bounded};

/// Channels that each connection subscribes to beside the first one.
const FURTHER: u64 = 4;

/// Bytes of an idle connection in one channel, at most.
const IN_ONE_MAX: f64 = 150.0;

/// Bytes of each further channel, at most.
const FURTHER_MAX: f64 = 40.0;

/// Whether they are within their bounds.
pub(crate) fn run(plan: &Plan) -> Outcome<bool> {
    let (server, connections) = (AppServer::start(&[]), plan.connections);
    // What the first of them make the server reserve is no connection's.
    let mut warm: Vec<Socket> = (0..1_000).map(|_| open(&server).0).collect();
    warm.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let bytes = || -> Outcome<f64> { Ok(process::resident_of(server.0.pid())?.anonymous as f64) };
    let before = bytes()?;
    let mut crowd: Vec<Socket> = (0..connections).map(|_| open(&server).0).collect();
    let in_none = bytes()?;
    println!(
        "an idle connection in no channel: {:.1} bytes",
        (in_none - before) / connections as f64
    );
    crowd.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let in_one = bytes()?;
    for channel in 1..=FURTHER {
        crowd.iter_mut().for_each(|socket| subscribe(socket, &format!("c-{channel}")));
    }
    let further = (bytes()? - in_one) / (connections * FURTHER) as f64;
    let in_one = (in_one - before) / connections as f64;
    let is_within = bounded("an idle connection in one channel", in_one, "bytes", IN_ONE_MAX);
    Ok(bounded("each further channel", further, "bytes", FURTHER_MAX) && is_within)
}
