//! What is appended, told to others than the stream's readers: once, and in the order of the
//! stream.
//!
//! An append is told when it is on disk, and before anything else is appended to the same stream.
//! What cannot be told at once is told later: the writer is answered, and its next append is
//! refused until then. A process that ends in between leaves a [note](crate::notes); the next one
//! tells what its predecessor has not.

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

    /// As [`Store::settle`], once what was appended last is told: also where its stream's life is
    /// over, which is removed behind it.
    pub(crate) fn settle_told(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
        teller: Option<&dyn Teller>,
    ) -> Result<Option<View>, Refusal> {
        let view = self.load(stream, writer)?;
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
        if let Some(number) = note.unsure {
            if !teller.is_safe(number) {
                return Err(Refusal::Pending);
            }
            notes.remove(&stream.path);
            return Ok(());
        }
        // Otherwise nothing came of it, or the stream is gone.
        let appended = view.filter(|view| view.meta.id == note.id && view.tail > note.position);
        let outcome = match appended {
            Some(view) => self.tell_last(stream, view, note, teller)?,
            None => Outcome::Told,
        };
        notes.settle(&stream.path, outcome);
        if outcome == Outcome::Told { Ok(()) } else { Err(Refusal::Pending) }
    }

    /// Tells the last append of a stream, as it is on disk, if nobody has. One behind which there
    /// are others was told before they were appended: only its note is left.
    fn tell_last(
        &self,
        stream: &Stream,
        view: &View,
        note: Note,
        teller: &dyn Teller,
    ) -> Result<Outcome, Refusal> {
        let file = file::open(&self.file(stream))?;
        let mut reader = Reader::between(&file, note.position, view.tail);
        let Some(record) = reader.next()? else { return Err(Refusal::Damaged(note.position)) };
        let data = record.data().to_vec();
        if reader.position != view.tail {
            return Ok(Outcome::Told);
        }
        let told = told(stream, view, note.position, &data);
        if note.is_old && teller.was_told(&told)? {
            return Ok(Outcome::Told);
        }
        Ok(teller.tell(&told))
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
        notes.settle(&stream.path, teller.tell(&told(stream, view, position, record.data())));
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
