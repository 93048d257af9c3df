//! The outbox of a held connection: what it has missed goes before what came meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Backlog, Piece};
use crate::Event;
use crate::conn::{Conn, Queue};

impl<S> Conn<S> {
    /// Whether nothing is written until it is known what this connection has missed.
    pub(crate) fn is_held(&self) -> bool {
        self.queued == Queue::Held
    }

    /// How many events and replies wait.
    pub(crate) fn pieces(&self) -> usize {
        let backlog = self.rare.as_ref().map_or(0, |rare| rare.backlog.pieces.len());
        backlog + usize::from(self.pending.is_some())
    }

    /// Puts `missed` (in the order of their numbers), with the bytes of `before` before and of
    /// `behind` behind them, into the outbox, merged with the events that came meanwhile: by
    /// number, each once. None of it is held against the bound, since the client could not yet
    /// read it.
    ///
    /// The rest of the answer's head stays first; other replies come last.
    pub(crate) fn catch_up(&mut self, before: &[u8], missed: Vec<Arc<Event>>, behind: &[u8]) {
        self.unpend();
        let Backlog { pieces, sent, bytes, uncounted } = &mut self.rare().backlog;
        debug_assert_eq!(*sent, 0, "nothing was written meanwhile");
        let head = pieces.iter().take_while(|piece| !piece.is_event()).count();
        let mut came = pieces.split_off(head);
        let mut replies = VecDeque::new();
        if !before.is_empty() {
            pieces.push_back(Piece::Reply(before.into()));
        }
        let mut missed = missed.into_iter().peekable();
        while let Some(piece) = came.pop_front() {
            let Piece::Event(event) = piece else {
                replies.push_back(piece);
                continue;
            };
            while let Some(earlier) = missed.next_if(|missed| missed.number() < event.number()) {
                pieces.push_back(Piece::Event(earlier));
            }
            missed.next_if(|missed| missed.number() == event.number());
            pieces.push_back(Piece::Event(event));
        }
        pieces.extend(missed.map(Piece::Event));
        if !behind.is_empty() {
            pieces.push_back(Piece::Reply(behind.into()));
        }
        pieces.append(&mut replies);
        (*bytes, *uncounted) = (0, pieces.len());
        self.tidy();
    }

    /// Forgets the events that wait, and keeps the rest of the answer and replies.
    pub(crate) fn drop_events(&mut self) {
        let form = self.form();
        self.pending = None;
        let Some(rare) = &mut self.rare else { return };
        let pieces = std::mem::take(&mut rare.backlog).pieces;
        pieces
            .into_iter()
            .filter(|piece| !piece.is_event())
            .for_each(|piece| rare.backlog.push(piece, form));
        self.tidy();
    }
}
