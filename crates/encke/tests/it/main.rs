//! The real program over real sockets: each test starts `encke` on free ports and in a directory of
//! its own. It acts as its clients, applications and operators do, and looks only at what they can
//! see.
//!
//! Nothing here sleeps or measures: a test waits for a state that the program shows, with a
//! deadline that is far beyond what a loaded machine needs. So the tests may run side by side.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed test should panic, and a skipped one say why"
)]

mod harness;

mod address_limits;
mod api;
mod api_bounds;
mod audience;
mod beginning;
mod bounds;
mod client_commands;
mod cluster;
mod commands;
mod compat;
mod completions;
mod crash;
mod dashboard;
mod demo;
mod demo_page;
mod deploy;
mod docs;
mod durable;
mod durable_events;
mod durable_lanes;
mod durable_long;
mod durable_long_public;
mod durable_public;
mod ending;
mod epoch;
mod erlang;
mod event_parts;
mod except;
mod fan_outs;
mod friends_and_rooms;
mod full;
mod full_disk;
mod gathering;
mod graph;
mod graph_backup;
mod graph_commands;
mod hostile;
mod http2;
mod instruments;
mod keep;
mod ketama;
mod ketama_erlang;
mod key_commands;
mod key_sessions;
mod keys;
mod lanes;
mod lanes_again;
mod listen;
mod listen_tokens;
mod log;
mod logout;
mod members;
mod mercure;
mod messages;
mod metrics;
mod once;
mod openapi;
mod pages;
mod past;
mod past_public;
mod plot;
mod poll;
mod polled_members;
mod postgres_commands;
mod presence;
mod pressure;
mod publish;
mod pusher;
mod rebinding;
mod refusals;
mod resume;
mod send_stream;
mod service;
mod settings;
mod settings_reload;
mod silence;
mod starting;
mod store_formats;
mod storm;
mod streams;
mod streams_ids;
mod stuck_log;
mod tls_acme;
mod tls_api;
mod tls_attackers;
mod tls_bounds;
mod tls_clients;
mod tls_instruments;
mod tls_memory;
mod tls_reload;
mod tls_sends;
mod tls_streams;
mod token_commands;
mod tokens;
mod traces;
mod trusted_proxies;
mod tune;
mod upgrade;
mod watch;
mod websocket;
mod websocket_deflate;
mod websocket_ends;
mod websocket_hostile;
mod websocket_resume;
