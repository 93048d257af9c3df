//! Members of presence channels: their bytes, and whether all of them are back after a storm.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pusher::SocketId;
use serde_json::{Value, json};
use sys::process;
use testing::wait_within;

use crate::app::{AppServer, PATH, hello, room_for, signed_hello};
use crate::crowd::{Crowd, Role, Says};
use crate::{Outcome, Plan, bounded};

/// Members of each channel.
const ROOM: usize = 10;

/// Bytes of a member beside what is said of it, at most.
const MEMBER_MAX: f64 = 120.0;

/// Seconds until all are back who were cut off at once, at most.
const BACK_MAX: f64 = 10.0;

/// In which time they all connect again.
const AGAIN: Duration = Duration::from_secs(1);

/// Channels whose users are asked for one by one.
const ASKED: usize = 100;

/// What is said of a member.
fn member(number: usize) -> Value {
    json!({ "user_id": user(number), "user_info": { "name": format!("User {number:07}") } })
}

fn user(number: usize) -> String {
    format!("user-{number:07}")
}

/// Its bytes: the id, and the JSON of what is told of it.
fn data_bytes() -> usize {
    let member = member(0);
    user(0).len() + member["user_info"].to_string().len()
}

fn in_public(number: usize, _: SocketId) -> Vec<String> {
    vec![hello(&format!("room-{}", number / ROOM))]
}

fn in_presence(number: usize, id: SocketId) -> Vec<String> {
    vec![signed_hello(&format!("presence-room-{}", number / ROOM), id, Some(&member(number)))]
}

fn in_both(number: usize, id: SocketId) -> Vec<String> {
    [in_presence(number, id), vec![signed_hello("private-news", id, None)]].concat()
}

/// Bytes of a member; whether they are within their bound.
pub(crate) fn bytes(plan: &Plan) -> Outcome<bool> {
    let public = bytes_each(plan, in_public)?;
    let presence = bytes_each(plan, in_presence)?;
    let data = data_bytes() as f64;
    println!(
        "an idle connection in a channel of {ROOM}: {public:.1} bytes; as a member {presence:.1}, \
         with {data} of data"
    );
    let more = presence - public - data;
    Ok(bounded("a member beside its data", more, "bytes", MEMBER_MAX))
}

fn bytes_each(plan: &Plan, says: Says) -> Outcome<f64> {
    let server = AppServer::start(&[]);
    let connections = plan.connections as usize;
    let role = Role { target: PATH.into(), says: Some(says) };
    // The first ones also pay for what is there once.
    let first = (connections / 10).next_multiple_of(ROOM);
    let mut crowd = Crowd::new(server.0.listen(), &role, first + connections);
    let bytes = || -> Outcome<f64> { Ok(process::resident_of(server.0.pid())?.anonymous as f64) };
    crowd.open(first, Duration::ZERO)?;
    let before = bytes()?;
    crowd.open(connections, Duration::ZERO)?;
    Ok((bytes()? - before) / connections as f64)
}

/// All are cut off at once and come back within a second; whether all are members again in time,
/// with exact lists.
pub(crate) fn storm(plan: &Plan) -> Outcome<bool> {
    let clients = plan.storm.next_multiple_of(ROOM);
    // A client that has gone has a place until the server knows it.
    let room = room_for(2 * clients, clients)?;
    let server = AppServer::start(&room.each_ref().map(|option| &**option));
    let role = Role { target: PATH.into(), says: Some(in_both) };
    let mut crowd = Crowd::new(server.0.listen(), &role, clients);
    crowd.open(clients, Duration::ZERO)?;
    let is_exact = await_lists(&server, &crowd, clients);
    let (cut, cpu) = (Instant::now(), server.figure("process_cpu_seconds_total"));
    crowd.cut();
    crowd.open(clients, AGAIN)?;
    let seconds = cut.elapsed().as_secs_f64();
    let cpu = server.figure("process_cpu_seconds_total") - cpu;
    let (us, refused) = (cpu * 1e6 / clients as f64, crowd.refused());
    println!("{clients} members come back: {us:.1} µs of processor each; {refused} had no place");
    let is_exact = is_exact && await_lists(&server, &crowd, clients);
    println!("all lists are exact: {is_exact}");
    Ok(bounded("until all are back and subscribed", seconds, "s", BACK_MAX) && is_exact)
}

/// Waits until each client knows all members of its channel, and looks what the API says of them.
fn await_lists(server: &AppServer, crowd: &Crowd, clients: usize) -> bool {
    // Who was there before the cut is a member until its grace is over, and is there again.
    let mut wrong = clients;
    wait_within(3 * BACK_GRACE, || {
        wrong = crowd.wrong_lists(ROOM as i64);
        wrong == 0
    });
    let prefix = [("filter_by_prefix", "presence-"), ("info", "user_count")];
    let told = server.ask("/channels", &prefix);
    let rooms = told["channels"].as_object().map_or(0, serde_json::Map::len);
    let are_whole = |room: &Value| room["user_count"] == ROOM;
    let all = rooms == clients / ROOM
        && told["channels"].as_object().is_some_and(|rooms| rooms.values().all(are_whole));
    let step = (clients / ROOM / ASKED).max(1);
    let listed = (0..clients / ROOM).step_by(step).all(|room| {
        let told = server.ask(&format!("/channels/presence-room-{room}/users"), &[]);
        let users = told["users"].as_array().into_iter().flatten();
        let users: BTreeSet<String> =
            users.filter_map(|user| Some(user["id"].as_str()?.to_owned())).collect();
        users == (room * ROOM..(room + 1) * ROOM).map(user).collect::<BTreeSet<_>>()
    });
    if wrong > 0 || !all || !listed {
        println!("{wrong} clients have wrong lists; {rooms} rooms, all whole: {all}, {listed}");
    }
    wrong == 0 && all && listed
}

/// The grace of members, as the server has it by default.
const BACK_GRACE: Duration = Duration::from_secs(5);
