//! Roles of this program that are processes of their own: told by their argument what to do.

use std::process::{ChildStdin, Command};

use serde::{Deserialize, Serialize};

use crate::harness::Program;
use crate::listeners::{self, Streams};
use crate::publish::{self, Order};
use crate::{Outcome, bare};

/// What stands before the role.
const FLAG: &str = "--role";

/// What a child does.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Bare { threads: usize, streams: u32 },
    Load { streams: Streams, users: u32 },
    Publish(Order),
}

/// Starts a child, and keeps its standard input, with whose end it ends.
pub(crate) fn spawn(role: &Role) -> Outcome<(Program, ChildStdin)> {
    let mut command = Command::new(std::env::current_exe()?);
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
        Ok(Role::Load { streams, users }) => listeners::run(&streams, users),
        Ok(Role::Publish(order)) => publish::run(&order),
        Err(error) => Err(error.into()),
    })
}
