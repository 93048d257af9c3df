//! Lanes for senders: single sends over HTTP/1.1, and updates of the Mercure protocol, are read,
//! posted, delivered and answered within the turn of a worker. Short appends to durable streams are
//! read and answered there, too.
//!
//! A backend that posts one event after the other keeps a connection to the API. On the way of all
//! other requests three threads are woken for each: the control plane's to read it, a worker's to
//! deliver it, the control plane's again to answer. A wake-up costs 7 to 13 µs of processor, more
//! than all the rest of a send. So a connection whose client begins with `POST /send HTTP/1.1`, or
//! publishes an update, or appends, is [leased](Lanes::lease) to a worker ([`engine::Lane`]). The
//! worker reads the requests as they come, posts them, and writes the answers once it has
//! delivered.
//!
//! A lane does only what is certain to succeed and to be short: plain HTTP, and a body of known
//! length that is here. It takes one event without an idempotency key, whose sender may send it,
//! for an audience of moderate size. The token of an update is short, and few patterns are tried on
//! its topics. Whatever else comes, and all that is wrong, it gives back to the control plane with
//! every byte that it has not dealt with, before anything of it is done. There it goes the way of
//! the library, which alone refuses, explains and counts refusals. So HTTP's many forms are one
//! place's affair, and a lane cannot differ from it but in time. Once that is answered, the
//! connection is leased again.
//!
//! An append waits for a disk, which a lane must not. So a lane only hands it on, to the thread
//! that makes [appends in groups](crate::api::PostedAppend), which rings once when a group is done.
//! Until then the lane keeps the bytes of the request, and asks nothing further of its client. If
//! the append could not be begun, the connection goes back with these bytes, and nothing is made
//! twice. What the group says of it, a refusal too, is answered here, by the library's own
//! functions.
//!
//! A connection that is silent for [`work::SILENT_MS`] comes back too: all time-outs and the bound
//! on connections are the control plane's. So do all of them before an upgrade and at the end
//! ([`Lanes::recall`]).
//!
//! There are none where each send takes the way of a cluster's log or may have a trace.
//!
//! Standards: RFC 9112 by `httparse`, in the part named above; RFC 9110, section 6.6.1, for `Date`.
//! Cost of a send to one stream of the same worker: four system calls and a `stat`.

mod answers;
mod control;
mod date;
mod head;
mod message;
mod rest;
mod slots;
mod work;

pub(crate) use self::control::{Lanes, Leased, prefers};
