//! Reading: pieces of a stream, and waiting for more.

use std::sync::Arc;

use crate::file::{self, Reader};
use crate::offset::{Offset, Start};
use crate::record::MAGIC;
use crate::refusal::Refusal;
use crate::state::is_json;
use crate::store::{Head, Store, head};
use crate::stream::LiveReader;

/// A piece of a stream.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The stream; its `next` is where this piece ends.
    pub head: Head,
    /// Where the piece begins.
    pub from: Offset,
    /// The bytes; of JSON the messages with commas between them.
    pub data: Vec<u8>,
    /// Whether it ends at the tail.
    pub up_to_date: bool,
}

impl Piece {
    /// Whether the stream ends where this piece does.
    pub fn ends(&self) -> bool {
        self.up_to_date && self.head.closed
    }
}

impl Store {
    /// Reads on from `start`, some `bytes_max` bytes, but a whole append at least. It waits for a
    /// disk.
    ///
    /// # Errors
    /// There is no such stream or place, or it cannot be read.
    pub fn read(&self, path: &str, start: Start, bytes_max: usize) -> Result<Piece, Refusal> {
        let stream = self.stream(path);
        let view = self.look(&stream)?;
        let first = MAGIC.len() as u64;
        let position = match start {
            Start::Beginning => first,
            Start::Now => view.tail,
            Start::At(Offset { id, .. }) if id < view.meta.id => return Err(Refusal::OldOffset),
            Start::At(Offset { id, position }) => {
                let is_own = id == view.meta.id && (first..=view.tail).contains(&position);
                if !is_own {
                    return Err(Refusal::BadOffset);
                }
                position
            }
        };
        self.touch(&stream, &view.meta);
        let mut piece = Piece {
            head: head(&view, position),
            from: view.offset(position),
            data: Vec::new(),
            up_to_date: position == view.tail,
        };
        if piece.up_to_date {
            return Ok(piece);
        }
        let file = file::open(&self.file(&stream))?;
        let mut reader = Reader::between(&file, position, view.tail);
        let separates = is_json(&view.meta.content_type);
        while piece.data.len() < bytes_max {
            let begun = reader.position;
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) if begun == view.tail => break,
                // No record begins here: the client has made the offset itself.
                Ok(None) | Err(Refusal::Damaged(_)) if begun == position => {
                    return Err(Refusal::BadOffset);
                }
                Ok(None) => return Err(Refusal::Damaged(begun)),
                Err(error) => return Err(error),
            };
            let data = record.data();
            if separates && !piece.data.is_empty() && !data.is_empty() {
                piece.data.push(b',');
            }
            piece.data.extend_from_slice(data);
        }
        piece.head.next = view.offset(reader.position);
        piece.up_to_date = reader.position == view.tail;
        Ok(piece)
    }

    /// Who waits for more of the stream at `path`. It does not wait.
    pub fn live(&self, path: &str) -> LiveReader {
        LiveReader::new(Arc::clone(&self.stream(path)), self.clock())
    }

    /// Notes on disk that a live reader has gone, with whom the life of a stream begins anew.
    ///
    /// # Errors
    /// There is no such stream any more, or it cannot be read.
    pub fn left(&self, path: &str) -> Result<(), Refusal> {
        let stream = self.stream(path);
        let view = self.look(&stream)?;
        self.touch(&stream, &view.meta);
        Ok(())
    }
}
