//! Creating streams, appending to them, closing and deleting them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::file::{self, Meta};
use crate::record::{DATA_BYTES_MAX, MAGIC, Record};
use crate::refusal::Refusal;
use crate::request::{Append, Create};
use crate::state::{Appended, Checked, State, same_type};
use crate::store::{Created, Store, head};
use crate::stream::{Stream, View};
use crate::teller::Teller;

impl Store {
    /// Creates the stream at `path`, or finds it as it is wanted. `teller` is told its first
    /// content.
    ///
    /// # Errors
    /// It exists in another form, or it cannot be stored.
    pub fn create(
        &self,
        path: &str,
        create: &Create<'_>,
        teller: Option<&dyn Teller>,
    ) -> Result<Created, Refusal> {
        assert!(create.data.len() <= DATA_BYTES_MAX, "the body was bounded when it was read");
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        let found = self.settle_told(&stream, &mut writer, teller)?;
        if let Some(view) = found {
            let is_same = same_type(&view.meta.content_type, create.content_type)
                && view.meta.lifetime == create.lifetime
                && view.closed == create.closed;
            if !is_same {
                return Err(Refusal::Exists);
            }
            self.touch(&stream, &view.meta);
            return Ok(Created { is_new: false, head: head(&view, view.tail) });
        }
        self.has_room()?;
        let (id, now_ms, first) = (self.new_id(), self.now_ms(), MAGIC.len() as u64);
        let record = Record::Create { id, path, create: *create };
        // An empty stream is nothing to tell of.
        let teller = teller.filter(|_| !create.data.is_empty() || create.closed);
        self.note(path, (id, first), teller)?;
        let created = file::create(&self.file(&stream), &record);
        let tail = created.inspect_err(|_| self.put_off(path))?;
        let mut state = State::new(create.content_type);
        state.apply(&record);
        self.count_bytes(tail);
        let meta = Meta { id, content_type: create.content_type.into(), lifetime: create.lifetime };
        let view = View { meta: Arc::new(meta), tail, closed: create.closed };
        self.publish(&stream, Some(&view), state.bytes(), now_ms);
        *writer = Some(state);
        self.tell(&stream, &view, (first, &record), teller);
        Ok(Created { is_new: true, head: head(&view, tail) })
    }

    /// Appends to the stream at `path`, closes it, or both. It is on disk when this is done, and
    /// `teller` was told it, or will be.
    ///
    /// # Errors
    /// It is refused, or cannot be stored; nothing was changed.
    pub fn append(
        &self,
        path: &str,
        append: &Append<'_>,
        teller: Option<&dyn Teller>,
    ) -> Result<Appended, Refusal> {
        assert!(append.data.len() <= DATA_BYTES_MAX, "the body was bounded when it was read");
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        let found = self.settle_told(&stream, &mut writer, teller)?;
        let view = found.ok_or(Refusal::Unknown)?;
        let state = writer.as_mut().ok_or(Refusal::Unknown)?;
        let checked = state.check(append, view.offset(view.tail))?;
        let asked = append.producer.map(|producer| (producer.epoch, producer.sequence));
        if let Checked::Repeat(producer) = checked {
            self.touch(&stream, &view.meta);
            let next = view.offset(view.tail);
            return Ok(Appended { next, closed: view.closed, repeated: true, producer });
        }
        if !append.data.is_empty() {
            self.has_room()?;
        }
        let (record, position) = (Record::Append(*append), view.tail);
        self.note(path, (view.meta.id, position), teller)?;
        let tail = match file::append(&self.file(&stream), position, &record) {
            Ok(tail) => tail,
            Err(error) => {
                // What is on disk is not known any more: the next request looks.
                self.put_off(path);
                *writer = None;
                self.forget(&stream);
                return Err(error.into());
            }
        };
        state.apply(&record);
        self.count_bytes(tail - position);
        let view = View { tail, closed: state.is_closed(), ..view };
        self.publish(&stream, Some(&view), state.bytes(), self.now_ms());
        self.tell(&stream, &view, (position, &record), teller);
        let next = view.offset(tail);
        Ok(Appended { next, closed: view.closed, repeated: false, producer: asked })
    }

    /// Deletes the stream at `path`.
    ///
    /// # Errors
    /// There is none, the disk fails, or `teller` is to be told its end and cannot be.
    pub fn delete(&self, path: &str, teller: Option<&dyn Teller>) -> Result<(), Refusal> {
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        let found = self.settle_told(&stream, &mut writer, teller)?;
        let view = found.ok_or(Refusal::Unknown)?;
        self.remove(&stream, &mut writer, &view)
    }

    /// Removes a stream with its file.
    pub(crate) fn remove(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
        view: &View,
    ) -> Result<(), Refusal> {
        file::remove(&self.file(stream))?;
        self.bytes.fetch_sub(view.tail, Ordering::Relaxed);
        *writer = None;
        self.publish(stream, None, 0, 0);
        Ok(())
    }

    fn count_bytes(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
    }
}
