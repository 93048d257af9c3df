//! What a silent member of a room takes.

use sys::process;

use crate::crowd::Crowd;
use crate::harness::Server;
use crate::{Outcome, Plan, ROOM, token, token_option};

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let without = bytes_each(plan, &["--members-max=0"])?;
    let with = bytes_each(plan, &[])?;
    println!("idle: {} users in rooms of {ROOM}, a WebSocket each", plan.clients);
    println!(
        "  {without:.0} bytes each without members, {with:.0} with: {:.0} more",
        with - without
    );
    Ok(())
}

fn bytes_each(plan: &Plan, options: &[&str]) -> Outcome<f64> {
    let key = token_option();
    let server = Server::start(&[&[&*key], options].concat());
    let mut crowd = Crowd::new(server.listen())?;
    let mut join = |client: usize| {
        let token = token(&format!("user:{client}"));
        crowd.join(&format!("/stream/room:{}?token={token}", client / ROOM)).map(drop)
    };
    // The first ones also pay for what is there once.
    let first = plan.clients / 10;
    (0..first).try_for_each(&mut join)?;
    server.wait_open(first as u64);
    let before = process::resident_of(server.pid())?.anonymous;
    (first..plan.clients).try_for_each(&mut join)?;
    server.wait_open(plan.clients as u64);
    let after = process::resident_of(server.pid())?.anonymous;
    Ok(after.saturating_sub(before) as f64 / (plan.clients - first) as f64)
}
