//! `encke ketama`: which server has a key, for programs that ask over a pipe.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::client::runtime;
use super::work::on_own_thread;
use crate::ketama::{ServerList, answer_stdin};
use crate::signals::Signals;

/// Answers keys on standard input with the server that has each: libketama's consistent hashing.
///
/// Keys and answers are packets: a byte that tells the length, and so many bytes. Erlang's
/// open_port/2 with {packet, 1} speaks that. Answers come in the order of the keys, so many may be
/// on their way. Ends with exit code 0 when standard input ends, as it does when a port is closed.
///
/// Each line of SERVERS is an address, tabs or blanks, and the server's memory, in any unit; a line
/// that begins with # is a comment. When the file changes it is read again within a second. If it
/// is bad then, that is told on standard error, and the servers of before hold.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke ketama servers.txt
  printf '\\006user:1' | encke ketama servers.txt | tail -c +2
  erl> Port = open_port({spawn, \"encke ketama servers.txt\"}, [binary, {packet, 1}]).
  erl> port_command(Port, <<\"user:1\">>), receive {Port, {data, Server}} -> Server end.")]
pub(crate) struct KetamaArgs {
    /// The list of servers.
    servers: PathBuf,
}

pub(crate) fn run(args: KetamaArgs) -> Result<()> {
    let (list, continuum) = ServerList::open(args.servers)?;
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            answered = on_own_thread(move || answer_stdin(&continuum)) => answered,
            // A disk that hangs holds up neither look-ups nor the end.
            kept = on_own_thread(move || list.keep()) => kept,
            _ = signals.next() => Ok(()),
        }
    })
}
