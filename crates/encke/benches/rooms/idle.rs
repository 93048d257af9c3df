//! What a silent member of a room takes.

use serde_json::json;
use sys::process;

use crate::crowd::Crowd;
use crate::harness::Server;
use crate::{Outcome, Plan, token, token_of, token_option};

/// How users are called, and what is told of them.
#[derive(Clone, Copy)]
enum Users {
    /// By a number, which is no text to keep; nothing is told.
    Numbered,
    /// By a text of some ten bytes, and twenty are told of each.
    Named,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    println!("idle: {} users in rooms of {}, a WebSocket each", plan.clients, plan.room);
    for (users, what) in
        [(Users::Numbered, "numbers, nothing told"), (Users::Named, "names, with an info")]
    {
        let without = bytes_each(plan, users, &["--members-max=0"])?;
        let with = bytes_each(plan, users, &[])?;
        println!(
            "  {what}: {without:.0} bytes each without members, {with:.0} with: {:.0} more",
            with - without
        );
    }
    Ok(())
}

fn bytes_each(plan: &Plan, users: Users, options: &[&str]) -> Outcome<f64> {
    let key = token_option();
    let server = Server::start(&[&[&*key], options].concat());
    let mut crowd = Crowd::new(server.listen())?;
    let mut join = |client: usize| {
        let token = match users {
            Users::Numbered => token_of(&(1_000_000 + client).to_string(), &json!({})),
            Users::Named => token(&format!("user:{client}")),
        };
        crowd.join(&format!("/stream/room:{}?token={token}", client / plan.room)).map(drop)
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
