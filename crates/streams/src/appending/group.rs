//! Appends to many streams by one thread, and the log that they share.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::{Begun, Writer};
use crate::log::{Batch, SharedLog};
use crate::record::{DATA_BYTES_MAX, append_bytes};
use crate::refusal::Refusal;
use crate::request::Append;
use crate::state::Appended;
use crate::store::Store;
use crate::stream::Stream;

/// Who is told what became of the append of a number.
type Done<'d> = &'d mut dyn FnMut(usize, Result<Appended, Refusal>);

/// Appends that one thread makes.
struct AppendGroup<'g> {
    appends: &'g [(&'g str, Append<'g>)],
    done: Done<'g>,
    /// Of the first call that came to grief.
    panic: Option<Box<dyn Any + Send>>,
    /// What is done alone behind the others.
    late: Vec<usize>,
}

impl AppendGroup<'_> {
    /// Tells what became of an append. That must not leave others half done.
    fn tell(&mut self, number: usize, appended: Result<Appended, Refusal>) {
        let told = catch_unwind(AssertUnwindSafe(|| (self.done)(number, appended)));
        if let Err(panic) = told {
            self.panic.get_or_insert(panic);
        }
    }
}

impl Store {
    /// Makes appends to different streams, which nobody is told, with one sync for all of them.
    /// `done` has the number of each and what became of it, once it is shown. `done` must not use
    /// the store. If it panics, the others are made all the same, and then this panics.
    ///
    /// It waits for the sync of this group, and for that of another one that is on its way. If both
    /// halves of the log are full it waits for the files of one, so have another thread
    /// [settle](Store::settle_log) the log as soon as it [is full](Store::log_is_full).
    ///
    /// Behind the others, one after the other, come appends that would hold them up: to streams
    /// that somebody else writes to or that are not in memory, long ones, and all if there is no
    /// log. Each of these waits as [`Store::append`] does. So do more of one path than one, in an
    /// order of their own.
    pub fn append_group(
        &self,
        appends: &[(&str, Append<'_>)],
        done: &mut dyn FnMut(usize, Result<Appended, Refusal>),
    ) {
        let are_bounded = appends.iter().all(|(_, append)| append.data.len() <= DATA_BYTES_MAX);
        assert!(are_bounded, "bodies were bounded when they were read");
        let streams = Vec::from_iter(appends.iter().map(|(path, _)| self.cache.find(path)));
        let mut group = AppendGroup { appends, done, panic: None, late: Vec::new() };
        match &self.log {
            Some(log) => {
                let mut from = 0;
                while from < appends.len() {
                    from = self.append_together(log, &mut group, &streams, from);
                }
            }
            None => group.late.extend(0..appends.len()),
        }
        for number in std::mem::take(&mut group.late) {
            let (path, append) = &appends[number];
            let appended = self.append_alone(path, append, None);
            group.tell(number, appended);
        }
        if let Some(panic) = group.panic {
            resume_unwind(panic);
        }
    }

    /// Makes as many of the appends as one batch takes, `from` one of them on; which is the next.
    fn append_together(
        &self,
        log: &SharedLog,
        group: &mut AppendGroup<'_>,
        streams: &[Option<Arc<Stream>>],
        from: usize,
    ) -> usize {
        let (mut batch, mut begun) = (Batch::default(), Vec::with_capacity(streams.len() - from));
        let mut next = streams.len();
        for (number, stream) in streams.iter().enumerate().skip(from) {
            let append = &group.appends[number].1;
            let bytes = append_bytes(append);
            let free = stream.as_ref().filter(|_| log.takes(bytes));
            let Some((stream, mut writer)) = free.and_then(|stream| self.free(stream)) else {
                group.late.push(number);
                continue;
            };
            if !log.fits(&batch, bytes) {
                next = number;
                break;
            }
            match self.begin_append((stream, &mut writer), (append, None), &mut batch) {
                Ok(Begun::Written(written)) => begun.push((number, stream, writer, written)),
                Ok(Begun::Repeat(appended)) => group.tell(number, Ok(appended)),
                Err(refusal) => group.tell(number, Err(refusal)),
            }
        }
        let stored = self.store_batch(batch);
        for (number, stream, mut writer, written) in begun {
            let told = (&group.appends[number].1, None);
            let appended = self.end_append((stream, &mut writer), told, written, &stored);
            drop(writer);
            group.tell(number, appended);
        }
        next
    }

    /// The writer of a stream, if nobody has it, and a look at the stream needs no disk.
    fn free<'s>(&self, stream: &'s Stream) -> Option<(&'s Stream, Writer<'s>)> {
        let writer = stream.writer.try_lock()?;
        self.is_at_hand(stream).then_some((stream, writer))
    }

    /// Whether somebody should [settle](Store::settle_log) the log. It does not wait.
    pub fn log_is_full(&self) -> bool {
        self.log.as_ref().is_some_and(SharedLog::is_full)
    }

    /// Has files on disk of which a full half of the log has something, so that it is used again.
    /// It waits for a disk.
    pub fn settle_log(&self) {
        if let Some(log) = &self.log {
            log.settle();
        }
    }

    /// Has all that was appended in files on disk, so that who opens them next finds an empty log.
    /// It waits for a disk.
    pub fn empty_log(&self) {
        if let Some(log) = &self.log {
            log.empty();
        }
    }

    /// Has all that was appended in files on disk, if nothing was for some time, and closes files
    /// that nobody appends to: call it every few seconds. It waits for a disk.
    pub fn rest(&self) {
        if let Some(log) = &self.log {
            log.rest();
        }
        self.files.close_idle();
    }
}

#[cfg(test)]
mod tests;
