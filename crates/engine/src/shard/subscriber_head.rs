//! The head of a stream of the hub: it says where the stream begins, and is kept until that is
//! known.

use std::sync::Arc;

use mercure::limits::ID_BYTES_MAX;
use mercure::{Dialect, EARLIEST};
use proto::{Cors, response};

use super::core::{At, Core};
use crate::mercure_config::{HeldHead, push_opening};
use crate::sockets::Sockets;
use crate::wire::Wire;

/// Where a client wants its stream to begin.
pub(super) enum Begin {
    /// Now.
    Live,
    /// With all that is remembered.
    Earliest,
    /// Behind the update of this number.
    Behind(u64),
    /// Behind one that is called so: if it is known, the archive knows it.
    Named(Arc<str>),
    /// Behind one that nobody knows.
    Unknown,
}

impl<S: Sockets> Core<S> {
    /// Writes the head, or keeps it where it is `held` until it is known what the client has missed
    /// behind its `place`.
    pub(super) fn begin_head(
        &mut self,
        at: &mut At<'_, S::Socket>,
        cors: Option<Cors<'_>>,
        newest: u64,
        (place, held): (Option<(Dialect, Arc<str>, Begin)>, bool),
    ) {
        let wire = at.conn.wire;
        let mut before = Vec::with_capacity(512);
        push_head(wire, cors, &mut before);
        let connection = self.connection_id(self.conn_ref(at)).to_string();
        let next = self.event_ids.id(newest).to_string();
        for part in ["Encke-Connection: ", &connection, "\r\nEncke-Next: ", &next, "\r\n"] {
            before.extend_from_slice(part.as_bytes());
        }
        let Some((dialect, place, begin)) = place else {
            self.answer.extend_from_slice(&before);
            push_opening(wire, &mut self.answer);
            return;
        };
        let place = if place.is_empty() { format!("#{next}").into() } else { place };
        let head = HeldHead::new(before, dialect.place_field(), place, wire);
        if held {
            at.conn.new_work().held.head = Some(Box::new(head));
            return;
        }
        let gap = match begin {
            Begin::Live => false,
            Begin::Earliest => self.config.history.is_on(),
            Begin::Behind(_) | Begin::Named(_) | Begin::Unknown => true,
        };
        head.push(gap, &mut self.answer);
        self.tell_unknown(wire, gap, &next);
    }

    /// Tells a client whose place is not known, or for whom nobody has time, where it stands.
    fn tell_unknown(&mut self, wire: Wire, gap: bool, next: &str) {
        if gap {
            self.resumes.count(true);
            wire.format().push_gap(&mut self.answer, wire.carrier(), Some(next));
        }
    }

    /// Whether it could be asked what a held client has missed behind what it was told, or, where
    /// it was told nothing yet, behind its place.
    pub(super) fn ask_anew(&mut self, at: &mut At<'_, S::Socket>) -> bool {
        let after = at.conn.handed_up_to();
        let head = at.conn.work().filter(|_| after == 0).and_then(|work| work.held.head.as_ref());
        match head.map(|head| self.begin_of(head.asked())) {
            // Another process knew what this one does not.
            Some(Begin::Unknown) => false,
            Some(Begin::Named(place)) => self.ask_named(at, &place),
            Some(Begin::Behind(number)) => self.ask(at, number),
            Some(Begin::Live | Begin::Earliest) | None => self.ask(at, after),
        }
    }

    /// Where the place is that a client has named.
    pub(super) fn begin_of(&self, place: &Arc<str>) -> Begin {
        let own = |word: &str| match self.event_ids.known(word.as_bytes()) {
            hub::Place::Known(number) => Some(number),
            // One that this server has not given.
            hub::Place::Future(_) | hub::Place::Later(_) | hub::Place::Unknown => None,
        };
        let number = match &**place {
            "" => return Begin::Live,
            EARLIEST => return Begin::Earliest,
            _ => match place.strip_prefix('#') {
                Some(word) => own(word),
                None => {
                    let published = self.topics.as_ref().and_then(|of| of.ids().number(place));
                    let known = published.or_else(|| own(place));
                    let may_be_kept =
                        self.config.event_store.is_some() && place.len() <= ID_BYTES_MAX;
                    if known.is_none() && may_be_kept {
                        return Begin::Named(Arc::clone(place));
                    }
                    known
                }
            },
        };
        number.map_or(Begin::Unknown, Begin::Behind)
    }

    /// Its stream ends before it has a head: it gets one, and what it has missed it asks for again.
    pub(super) fn push_held_head(&mut self, at: &mut At<'_, S::Socket>) {
        let head = at.conn.some_work().and_then(|work| work.held.head.take());
        if let Some(head) = head {
            head.push(true, &mut self.answer);
        }
    }
}

/// The head but for where the stream begins.
pub(super) fn push_head(wire: Wire, cors: Option<Cors<'_>>, out: &mut Vec<u8>) {
    response::stream_head(wire.format(), wire.carrier(), cors, out);
    if cors.is_some() {
        out.extend_from_slice(EXPOSED.as_bytes());
    }
}

/// What a page may read of the head.
const EXPOSED: &str = "Access-Control-Expose-Headers: Link, Last-Event-ID, \
                       Mercure-Last-Event-ID, Encke-Connection, Encke-Next\r\n";
