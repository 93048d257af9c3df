//! Roles of this program that are processes of their own: told by their argument what to do.

use std::net::SocketAddr;
use std::process::{ChildStdin, Command};

use serde::{Deserialize, Serialize};

use crate::attackers::{self, Attack};
use crate::harness::Program;
use crate::publish::{self, Order, Published};
use crate::{GRACE, Outcome, START_MAX, bare};

/// What stands before the role.
const FLAG: &str = "--role";

/// What a child does.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Bare { threads: usize, streams: u32 },
    Publish(Order),
    Attack { attack: Attack, listen: SocketAddr, api: SocketAddr },
}

/// Starts a child, and keeps its standard input, with whose end it ends.
pub(crate) fn spawn(role: &Role) -> Outcome<(Program, ChildStdin)> {
    let mut command = match role {
        // An attacker elsewhere would take nothing of these cores.
        Role::Attack { .. } => {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0"]).arg(std::env::current_exe()?);
            command
        }
        Role::Bare { .. } | Role::Publish(_) => Command::new(std::env::current_exe()?),
    };
    command.args([FLAG, &serde_json::to_string(role)?]);
    Ok(Program::spawn_with_input(&mut command))
}

/// Plays the role that the arguments name, if they do.
pub(crate) fn play(arguments: &[String]) -> Option<Outcome<()>> {
    let [flag, role] = arguments else { return None };
    if flag != FLAG {
        return None;
    }
    Some(match serde_json::from_str(role) {
        Ok(Role::Bare { threads, streams }) => bare::serve(threads, streams as usize),
        Ok(Role::Publish(order)) => publish::run(&order),
        Ok(Role::Attack { attack, listen, api }) => attackers::run(attack, listen, api),
        Err(error) => Err(error.into()),
    })
}

/// Has an order carried out; `before` is called when its publishers are connected.
pub(crate) fn publish(order: Order, before: impl FnOnce() -> Outcome<()>) -> Outcome<Published> {
    use std::io::Write as _;
    let time = std::time::Duration::from_secs_f64(order.seconds) + GRACE;
    let (program, mut input) = spawn(&Role::Publish(order))?;
    program.line_within(START_MAX)?;
    before()?;
    writeln!(input, "go")?;
    Ok(serde_json::from_str(&program.line_within(time)?)?)
}
