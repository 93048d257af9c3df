//! Reading: pieces of a stream, and waiting for more.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::content::{Content, Place};
use crate::long_reads::LongReads;
use crate::offset::{Offset, Start};
use crate::record::FIRST;
use crate::refusal::Refusal;
use crate::state::is_json;
use crate::store::{Head, Store, head};
use crate::stream::{LiveReader, Stream, View};

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
    /// disk, and if an append is long, for others who read long ones.
    ///
    /// # Errors
    /// There is no such stream or place, or it cannot be read.
    pub fn read(&self, path: &str, start: Start, bytes_max: usize) -> Result<Piece, Refusal> {
        let stream = self.stream(path);
        let view = self.look(&stream)?;
        self.read_of((&stream, &view), start, bytes_max, Some(&self.long_reads))
    }

    /// As [`Store::read`], if none of the appends is long.
    ///
    /// # Errors
    /// As there, and [`Refusal::Long`]: one is, and nobody was waited for who reads another one.
    pub fn read_short(&self, path: &str, start: Start, bytes_max: usize) -> Result<Piece, Refusal> {
        let stream = self.stream(path);
        let view = self.look(&stream)?;
        self.read_of((&stream, &view), start, bytes_max, None)
    }

    /// As [`Store::read`], of a stream as it was when it was looked at. Long appends are read with
    /// a permit of `long_reads`, if at all.
    fn read_of(
        &self,
        (stream, view): (&Stream, &View),
        start: Start,
        bytes_max: usize,
        long_reads: Option<&LongReads>,
    ) -> Result<Piece, Refusal> {
        let content = Content::of(self.file(stream), view);
        let place = content.place(start)?;
        self.touch(stream, &view.meta);
        let mut data = Vec::new();
        let mut end = place;
        if place != content.tail() {
            let separates = is_json(&view.meta.content_type);
            let taken = |more: &[u8]| {
                push(&mut data, more, separates);
                data.len() >= bytes_max
            };
            end = self.read_files((stream, view), || {
                let read = content.read(place, long_reads, taken);
                let is_damaged = matches!(read, Err(Refusal::Damaged(_)));
                let is_made_up = is_damaged && self.is_made_up(&content, place, long_reads)?;
                if is_made_up { Err(Refusal::BadOffset) } else { read }
            })?;
        }
        let next = content.offset(end);
        Ok(Piece {
            head: Head { next, ..head(view) },
            from: content.offset(place),
            data,
            up_to_date: end == content.tail(),
        })
    }

    /// Does `read`, which reads the files of a stream as of `view`.
    ///
    /// # Errors
    /// The stream is deleted meanwhile, or its files cannot be read.
    pub(crate) fn read_files<T>(
        &self,
        (stream, view): (&Stream, &View),
        read: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let read = read();
        if matches!(&read, Err(Refusal::Disk(error)) if error.kind() == ErrorKind::NotFound) {
            // Who deletes a stream removes its files first, and has its writer until it says so.
            drop(stream.writer.lock());
        }
        // Its files' names are another stream's once it is deleted, or nobody's.
        if self.look(stream)?.meta.id != view.meta.id {
            return Err(Refusal::Unknown);
        }
        read
    }

    /// Whether a client has made up `place`, behind which something cannot be read. It may have led
    /// into its own append, whose bytes have the form of a record.
    fn is_made_up(
        &self,
        content: &Content,
        place: Place,
        long_reads: Option<&LongReads>,
    ) -> Result<bool, Refusal> {
        if place.position == FIRST {
            return Ok(false);
        }
        // The whole file may be read for it. One at a time does that, so that whoever makes up many
        // takes one thread. What the others hear meanwhile is the likelier of the two.
        let Some(_checking) = self.checking.try_lock() else { return Ok(true) };
        Ok(!content.is_boundary(place, long_reads)?)
    }

    /// Who waits for more of the stream at `path`. It does not wait.
    pub fn live(&self, path: &str) -> LiveReader {
        LiveReader::new(Arc::clone(&self.stream(path)), self.clock())
    }

    /// Notes on disk that a live reader has gone, with whom the lifetime of a stream begins anew.
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

impl LiveReader {
    /// What was appended last, if that is all that there is behind `offset`. It waits for no disk.
    /// Where there is none, [`Store::read`] may have more.
    pub fn newest_piece(&self, offset: Offset) -> Option<Piece> {
        let (view, newest) = self.newest(offset)?;
        let separates = is_json(&view.meta.content_type);
        let mut data = Vec::with_capacity(newest.iter().map(|data| data.len() + 1).sum());
        newest.iter().for_each(|more| push(&mut data, more, separates));
        Some(Piece { head: head(&view), from: offset, data, up_to_date: true })
    }
}

/// Adds the data of one more append to a piece; a comma separates messages of JSON.
fn push(piece: &mut Vec<u8>, more: &[u8], separates: bool) {
    if separates && !piece.is_empty() && !more.is_empty() {
        piece.push(b',');
    }
    piece.extend_from_slice(more);
}

#[cfg(test)]
mod tests;
