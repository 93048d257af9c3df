//! Appending to streams.
//!
//! An append is checked and written into its file, is on disk by a sync of its own or with all
//! others of the [log](crate::log), and is then shown. The writer of its stream is held meanwhile.

mod group;

use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::file;
use crate::log::{Batch, EntryPlace, Unstored};
use crate::record::{DATA_BYTES_MAX, Record};
use crate::refusal::Refusal;
use crate::request::Append;
use crate::state::{Appended, Checked, State};
use crate::store::Store;
use crate::stream::{Stream, View};
use crate::teller::Teller;

/// Of a stream that is held.
type Writer<'s> = MutexGuard<'s, Option<State>>;

/// A stream, held.
type Held<'h, 's> = (&'h Stream, &'h mut Writer<'s>);

/// An append, and who is told it.
type Told<'t> = (&'t Append<'t>, Option<&'t dyn Teller>);

/// An append that was begun.
enum Begun {
    /// It was taken before.
    Repeat(Appended),
    Written(Written),
}

/// An append that its file has.
struct Written {
    /// The stream before it.
    view: View,
    file: Arc<File>,
    /// Where it ends.
    tail: u64,
    /// Whether its batch has it; otherwise it is on disk.
    is_logged: bool,
}

impl Store {
    /// Appends to the stream at `path`, closes it, or both. It is on disk when this is done, and
    /// `teller` was told it, or will be.
    ///
    /// # Errors
    /// It is refused, or cannot be stored.
    pub fn append(
        &self,
        path: &str,
        append: &Append<'_>,
        teller: Option<&dyn Teller>,
    ) -> Result<Appended, Refusal> {
        let appended = self.append_alone(path, append, teller);
        if let Some(log) = &self.log {
            log.settle();
        }
        appended
    }

    /// As [`Store::append`], and leaves the log to others.
    fn append_alone(
        &self,
        path: &str,
        append: &Append<'_>,
        teller: Option<&dyn Teller>,
    ) -> Result<Appended, Refusal> {
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        let mut batch = Batch::default();
        let told = (append, teller);
        match self.begin_append((&stream, &mut writer), told, &mut batch)? {
            Begun::Repeat(appended) => Ok(appended),
            Begun::Written(written) => {
                let stored = self.store_batch(batch);
                self.end_append((&stream, &mut writer), told, written, &stored)
            }
        }
    }

    /// Checks an append, and writes it into its file, and into the batch if the log takes it.
    fn begin_append(
        &self,
        (stream, writer): Held<'_, '_>,
        (append, teller): Told<'_>,
        batch: &mut Batch,
    ) -> Result<Begun, Refusal> {
        assert!(append.data.len() <= DATA_BYTES_MAX, "the body was bounded when it was read");
        let found = self.settle_told(stream, writer, teller)?;
        let view = found.ok_or(Refusal::Unknown)?;
        let state = writer.as_ref().ok_or(Refusal::Unknown)?;
        if let Checked::Repeat(producer) = state.check(append, view.offset(view.tail))? {
            self.touch(stream, &view.meta);
            let next = view.offset(view.tail);
            return Ok(Begun::Repeat(Appended {
                next,
                closed: view.closed,
                repeated: true,
                producer,
            }));
        }
        if !append.data.is_empty() {
            self.has_room()?;
        }
        self.note(&stream.path, (view.meta.id, view.tail), teller)?;
        self.write(stream, view, append, batch).map(Begun::Written).inspect_err(|_| {
            self.put_off(&stream.path);
            self.fail(stream, writer);
        })
    }

    /// Writes an append into its file, and into the batch if the log takes it.
    fn write(
        &self,
        stream: &Stream,
        view: View,
        append: &Append<'_>,
        batch: &mut Batch,
    ) -> Result<Written, Refusal> {
        // Also where it is not logged: a log that has failed may have what was cut off here.
        batch.ready(self.log.as_ref())?;
        let (name, id, position) = (stream.name, view.meta.id, view.tail);
        let file = self.files.open((name, id), || self.file(stream))?;
        let (failures, len) = (self.doubt.failures(), batch.len());
        let place = EntryPlace { name, id, position, at_ms: self.now_ms() };
        let bytes = batch.add(place, &Record::Append(*append), failures);
        let tail = position + bytes.len() as u64;
        let is_logged = self.log.as_ref().is_some_and(|log| log.takes(bytes.len()));
        let mut written = file::write(&file, position, bytes, &self.doubt);
        if !is_logged {
            written = written.and_then(|()| file::sync(&file, position, &self.doubt));
        }
        if !is_logged || written.is_err() {
            batch.take_back(len);
        }
        written?;
        Ok(Written { view, file, tail, is_logged })
    }

    /// Has appends that were written on disk.
    fn store_batch(&self, batch: Batch) -> Result<(), Unstored> {
        match &self.log {
            Some(log) if !batch.is_empty() => log.store(batch),
            _ => Ok(()),
        }
    }

    /// Shows an append, if what became of its batch says that it is on disk, and tells it.
    fn end_append(
        &self,
        (stream, writer): Held<'_, '_>,
        (append, teller): Told<'_>,
        written: Written,
        stored: &Result<(), Unstored>,
    ) -> Result<Appended, Refusal> {
        let Written { view, file, tail, is_logged } = written;
        let (record, position) = (Record::Append(*append), view.tail);
        if let (true, Err(unstored)) = (is_logged, stored) {
            self.doubt.raise();
            let is_off = file::cut_off(&file, position, &self.doubt).is_ok();
            self.put_off(&stream.path);
            self.fail(stream, writer);
            let error = io::Error::other(unstored.why.clone());
            // If the log may have it, nobody knows before that is empty.
            let is_sure = is_off && !unstored.is_unsure;
            return Err(if is_sure { Refusal::Disk(error) } else { Refusal::Unsure(error) });
        }
        let state = writer.as_mut().expect("the stream is held since it was checked");
        state.apply(&record);
        self.count_bytes(tail - position);
        stream.keep_newest((view.offset(position), tail), append.data);
        let view = View { tail, closed: state.is_closed(), ..view };
        self.publish(stream, Some(&view), state.bytes(), self.now_ms());
        self.tell(stream, &view, (position, &record), teller);
        let asked = append.producer.map(|producer| (producer.epoch, producer.sequence));
        let next = view.offset(tail);
        Ok(Appended { next, closed: view.closed, repeated: false, producer: asked })
    }
}

#[cfg(test)]
mod tests;
