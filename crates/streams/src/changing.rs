//! Creating streams, and deleting them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::file::{self, Meta};
use crate::lineage::Lineage;
use crate::links;
use crate::record::{DATA_BYTES_MAX, FIRST, Record};
use crate::refusal::Refusal;
use crate::request::Create;
use crate::state::{State, same_type};
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
        let found = self.settle_told(&stream, &mut writer, teller).map_err(Refusal::of_path)?;
        if let Some(view) = found {
            let is_same = view.meta.lineage.is_none()
                && same_type(&view.meta.content_type, create.content_type)
                && view.meta.lifetime == create.lifetime
                && view.closed == create.closed;
            if !is_same {
                return Err(Refusal::Exists);
            }
            self.touch(&stream, &view.meta);
            return Ok(Created { is_new: false, head: head(&view) });
        }
        self.begin(&stream, &mut writer, (create, None), teller)
    }

    /// Stores the first record of a stream where there is none.
    pub(crate) fn begin(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
        (create, lineage): (&Create<'_>, Option<Lineage>),
        teller: Option<&dyn Teller>,
    ) -> Result<Created, Refusal> {
        self.has_room()?;
        let source = lineage.as_ref().and_then(Lineage::source);
        // The offsets of a fork are greater than its source's.
        let id = self.new_id(source.map_or(0, |source| source.id + 1));
        let (path, now_ms) = (&stream.path, self.now_ms());
        // An empty stream is nothing to tell of.
        let teller = teller.filter(|_| !create.data.is_empty() || create.closed);
        self.note(path, (id, FIRST), teller)?;
        let record = Record::Create { id, path, create: *create, lineage: lineage.clone() };
        let tail = match file::create(&self.file(stream), &record, &self.doubt) {
            Ok(tail) => tail,
            Err(error) => {
                self.put_off(path);
                self.fail(stream, writer);
                return Err(error);
            }
        };
        let mut state = State::new(create.content_type);
        state.apply(&record);
        self.count_bytes(tail);
        let (content_type, lifetime) = (create.content_type.into(), create.lifetime);
        let meta = Meta { id, content_type, lifetime, lineage };
        let view = View { meta: Arc::new(meta), tail, closed: create.closed };
        self.publish(stream, Some(&view), state.bytes(), now_ms);
        *writer = Some(state);
        self.tell(stream, &view, (FIRST, &record), teller);
        Ok(Created { is_new: true, head: head(&view) })
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
        self.remove(&stream, &mut writer, &view)?;
        drop(writer);
        // What was deleted and is needed by nobody now is removed at once.
        let ancestors = view.meta.lineage.iter().flat_map(|lineage| &lineage.ancestors);
        ancestors.for_each(|ancestor| drop(self.head(&ancestor.path)));
        Ok(())
    }

    /// Removes a stream, and its file unless forks need it.
    pub(crate) fn remove(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
        view: &View,
    ) -> Result<(), Refusal> {
        let ancestors = view.meta.lineage.as_ref().map_or(0, |lineage| lineage.ancestors.len());
        let file = self.file(stream);
        let removed = links::remove_stream(&file, ancestors, &self.doubt);
        let remains = removed.map_err(|error| {
            self.fail(stream, writer);
            // It goes on as long as it has its name.
            if file.exists() { Refusal::Disk(error) } else { Refusal::Unsure(error) }
        })?;
        *writer = None;
        self.files.close((stream.name, view.meta.id));
        self.publish(stream, None, 0, 0);
        let synced = self.doubt.sync_directory_of(&file);
        if self.settle_remains(remains).is_err() || synced.is_err() {
            // The next request looks whether forks need it still, and syncs the directory.
            self.forget(stream);
        }
        synced.map_err(Refusal::Unsure)
    }

    pub(crate) fn count_bytes(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
    }
}
