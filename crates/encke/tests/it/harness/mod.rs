//! What the tests stand on: the program as a child process, a raw client, and a client of the API.

mod api;
mod authority;
mod directory;
mod http2;
mod jwt;
mod pipe;
mod program;
mod relay;
mod server;
mod socket;
mod stream;
mod wire;

pub(crate) use api::{Answer, Api, check_problem, escape, read_answer};
pub(crate) use authority::{Authority, Issued, tls_client};
pub(crate) use directory::Directory;
pub(crate) use http2::http2_status;
#[allow(unused_imports, reason = "for the benchmark beside the reference hub")]
pub(crate) use jwt::signed_by;
pub(crate) use jwt::{Signer, TOKEN_SECRET, in_seconds, signed, token_for};
pub(crate) use pipe::{make_pipe, pipe_writer};
pub(crate) use program::{Finished, Program, encke, without_settings};
pub(crate) use relay::Relay;
pub(crate) use server::{Server, own_ports};
pub(crate) use socket::{Socket, frame};
pub(crate) use stream::{Stream, get};
pub(crate) use testing::{DEADLINE, seed, wait_for};
pub(crate) use wire::{End, Head, Wire};
