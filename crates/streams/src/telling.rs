//! What is appended, told to others than the stream's readers: once, and in the order of the
//! stream.
//!
//! An append is told when it is on disk, and before anything else is appended to the same stream.
//! What cannot be told at once is told later: the writer is answered, and its next append is
//! refused until then. A process that ends in between leaves a [note](crate::notes); the next one
//! tells what its predecessor has not.

use std::fs::File;

use crate::file::{self, Reader};
use crate::notes::Note;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::state::State;
use crate::store::Store;
use crate::stream::{Stream, View};
use crate::teller::{AppendNotice, Outcome, Teller};

impl Store {
    /// Tells what may not be told yet of the stream at `path`.
    ///
    /// # Errors
    /// It cannot be told now, or the disk fails.
    pub fn tell_due(&self, path: &str, teller: &dyn Teller) -> Result<(), Refusal> {
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        self.settle_told(&stream, &mut writer, Some(teller)).map(drop)
    }

    /// As [`Store::settle`], once what was appended last is told: also where its stream's lifetime
    /// is over, which is removed behind it.
    pub(crate) fn settle_told(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
        teller: Option<&dyn Teller>,
    ) -> Result<Option<View>, Refusal> {
        let view = match self.load(stream, writer) {
            // Its last append was told before it was deleted.
            Err(Refusal::Gone) => None,
            view => view?,
        };
        self.tell_noted(stream, view.as_ref(), teller)?;
        self.settle(stream, writer)
    }

    /// Whether something of the stream at `path` may not be told yet. It does not wait.
    pub(crate) fn is_noted(&self, path: &str) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.of(path).is_some())
    }

    /// The paths of streams with something to be told by [`Store::tell_due`]. It does not wait.
    pub fn due(&self) -> Vec<Box<str>> {
        self.notes.as_ref().map(|notes| notes.due()).unwrap_or_default()
    }

    /// Clears what is noted of streams to which nothing was appended since the last call but one:
    /// call it every few seconds. It waits for a disk if there is any.
    pub fn retire_notes(&self) {
        if let Some(notes) = &self.notes {
            notes.retire();
        }
    }

    /// Tells what was appended last and may not be told yet, so that something may be appended. The
    /// writer of `stream` is held.
    fn tell_noted(
        &self,
        stream: &Stream,
        view: Option<&View>,
        teller: Option<&dyn Teller>,
    ) -> Result<(), Refusal> {
        let (Some(notes), Some(teller)) = (&self.notes, teller) else { return Ok(()) };
        let Some(note) = notes.of(&stream.path) else { return Ok(()) };
        let end = view.map_or(note.position, |view| view.tail);
        if let Some(number) = note.unsure {
            if !teller.is_safe(number) {
                return Err(Refusal::Pending);
            }
            notes.settle(&stream.path, Outcome::Told, end);
            return Ok(());
        }
        // Otherwise nothing came of it, or the stream is gone.
        let appended = view.filter(|view| view.meta.id == note.id && view.tail > note.position);
        let outcome = match appended {
            Some(view) => self.tell_last(stream, view, note, teller)?,
            None => Outcome::Told,
        };
        notes.settle(&stream.path, outcome, end);
        if outcome == Outcome::Told { Ok(()) } else { Err(Refusal::Pending) }
    }

    /// Tells the last append of a stream, as it is on disk, if nobody has. Those before it were
    /// told before it was appended: a note that is old may say less than was told.
    fn tell_last(
        &self,
        stream: &Stream,
        view: &View,
        note: Note,
        teller: &dyn Teller,
    ) -> Result<Outcome, Refusal> {
        let file = file::open(&self.file(stream))?;
        let (position, data) = self.last_append(&file, (note.position, view.tail))?;
        let told = told(stream, view, position, &data);
        if note.is_old && teller.was_told(&told)? {
            return Ok(Outcome::Told);
        }
        Ok(teller.tell(&told))
    }

    /// Where the last record between two places of a file begins, and its data. Of a long one no
    /// more is held when this is done: to tell it may take a while.
    fn last_append(&self, file: &File, (from, end): (u64, u64)) -> Result<(u64, Vec<u8>), Refusal> {
        let mut reader = Reader::between(file, (from, end), Some(&self.long_reads));
        let (mut position, mut data) = (from, Vec::new());
        while reader.position < end {
            position = reader.position;
            let Some(record) = reader.next()? else { return Err(Refusal::Damaged(position)) };
            data.clear();
            data.extend_from_slice(record.data());
        }
        Ok((position, data))
    }

    /// Notes that something will be appended at `position`, if it is to be told.
    pub(crate) fn note(
        &self,
        path: &str,
        (id, position): (u64, u64),
        teller: Option<&dyn Teller>,
    ) -> Result<(), Refusal> {
        match (&self.notes, teller) {
            (Some(notes), Some(teller)) => notes.make(path, (id, position), teller.outlives(path)),
            _ => Ok(()),
        }
    }

    /// What was noted may be on disk or not.
    pub(crate) fn put_off(&self, path: &str) {
        if let Some(notes) = &self.notes {
            notes.put_off(path);
        }
    }

    /// Tells what was appended at `position`, of which there is a note.
    pub(crate) fn tell(
        &self,
        stream: &Stream,
        view: &View,
        (position, record): (u64, &Record<'_>),
        teller: Option<&dyn Teller>,
    ) {
        let (Some(notes), Some(teller)) = (&self.notes, teller) else { return };
        let outcome = teller.tell(&told(stream, view, position, record.data()));
        notes.settle(&stream.path, outcome, view.tail);
    }
}

fn told<'b>(stream: &'b Stream, view: &'b View, position: u64, data: &'b [u8]) -> AppendNotice<'b> {
    AppendNotice {
        path: &stream.path,
        content_type: &view.meta.content_type,
        from: view.offset(position),
        next: view.offset(view.tail),
        data,
        closes: view.closed,
    }
}

#[cfg(test)]
mod tests;
