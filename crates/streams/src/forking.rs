//! Forks: streams that begin with what another one has, without a copy of it.
//!
//! A fork has its source's content up to a place, and goes on by itself (draft 1.0, section 4.2).
//! Its offsets are the source's up to there, and then its own, which are greater. It reads the
//! source's [file](crate::links); what it has of an append in part is copied into its first record.
//!
//! Cost: a name in a directory for each ancestor, [`ANCESTORS_MAX`] at most, and one file more to
//! open for each of them that a reader passes. To make one before the source's tail, the source's
//! file is read up to there once.

use std::cmp::Ordering;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::content::{Content, Place};
use crate::file;
use crate::json::first_messages;
use crate::lifetime::Lifetime;
use crate::lineage::{ANCESTORS_MAX, Ancestor, Lineage};
use crate::links;
use crate::long_reads::LongReads;
use crate::offset::Start;
use crate::record::{DATA_BYTES_MAX, FIRST};
use crate::refusal::Refusal;
use crate::request::{Create, Fork};
use crate::state::{is_json, same_type};
use crate::store::{Created, Store, head};
use crate::stream::View;
use crate::teller::Teller;

/// What a fork is made of.
struct Origin {
    lineage: Lineage,
    /// The files of the ancestors.
    files: Vec<PathBuf>,
    lifetime: Lifetime,
    /// What the fork has of the append at its place.
    prefix: Vec<u8>,
}

impl Store {
    /// Creates the stream at `path` as a fork of another one, or finds it as it is wanted. `teller`
    /// is told its own first content.
    ///
    /// # Errors
    /// It exists in another form, its source is none that can be forked there, or it cannot be
    /// stored.
    pub fn fork(
        &self,
        path: &str,
        fork: &Fork<'_>,
        teller: Option<&dyn Teller>,
    ) -> Result<Created, Refusal> {
        // Before the fork is held: two that are made of each other would wait for each other.
        let origin = self.origin(fork);
        let stream = self.stream(path);
        let mut writer = stream.writer.lock();
        let found = self.settle_told(&stream, &mut writer, teller).map_err(Refusal::of_path)?;
        if let Some(view) = found {
            // Its source may have been deleted since.
            if !is_same(&view, fork) {
                return Err(Refusal::Exists);
            }
            self.touch(&stream, &view.meta);
            return Ok(Created { is_new: false, head: head(&view) });
        }
        let Origin { lineage, files, lifetime, prefix } = origin?;
        let data = with_prefix(prefix, fork)?;
        let file = self.file(&stream);
        let ancestors = lineage.ancestors.clone();
        links::make(&file, &files, &self.doubt).map_err(no_link)?;
        let begun = check_ancestors(&file, &ancestors, &self.long_reads).and_then(|()| {
            let Fork { content_type, closed, .. } = *fork;
            let create = Create { content_type, lifetime, closed, data: &data };
            self.begin(&stream, &mut writer, (&create, Some(lineage)), teller)
        });
        if begun.is_err() && !file.exists() {
            links::remove(&file, ancestors.len());
        }
        begun
    }

    /// Looks what `fork` is made of. Nothing is changed.
    fn origin(&self, fork: &Fork<'_>) -> Result<Origin, Refusal> {
        let source = self.stream(fork.source);
        let view = self.look(&source).map_err(Refusal::of_path)?;
        if !same_type(&view.meta.content_type, fork.content_type) {
            return Err(Refusal::OtherType(view.meta.content_type.as_ref().into()));
        }
        let content = Content::of(self.file(&source), &view);
        if content.spans.len() > ANCESTORS_MAX {
            return Err(Refusal::Ancestors(ANCESTORS_MAX));
        }
        let place = content.place(fork.at.unwrap_or(Start::Now)).map_err(|why| match why {
            // Not gone: it is none of the source's that is there.
            Refusal::OldOffset => Refusal::BadOffset,
            why => why,
        })?;
        // By the first record behind it: whether the place is one, and what the fork has of that.
        let mut prefix = Vec::new();
        let mut is_enough = fork.sub_offset == 0;
        if place != content.tail() {
            let taken = |data: &[u8]| {
                if !is_enough && !data.is_empty() {
                    prefix = first_part(data, fork).unwrap_or_default().to_vec();
                    is_enough = true;
                }
                is_enough
            };
            self.read_files((&source, &view), || {
                content.read(place, Some(&self.long_reads), taken)?;
                // What begins there may be bytes of a client that have the form of a record. The
                // fork would end within another one.
                let is_boundary = content.is_boundary(place, Some(&self.long_reads))?;
                if is_boundary { Ok(()) } else { Err(Refusal::BadOffset) }
            })?;
        }
        if fork.sub_offset > 0 && prefix.is_empty() {
            return Err(Refusal::SubOffset);
        }
        let lineage = Lineage {
            at: content.offset(place),
            sub_offset: fork.sub_offset,
            ancestors: ancestors(&content, &view, (fork.source, place)),
        };
        let files = content.spans.into_iter().map(|span| span.file).collect();
        Ok(Origin { lineage, files, lifetime: fork.lifetime.unwrap_or(view.meta.lifetime), prefix })
    }
}

/// The ancestors of a fork that is made of the stream at `path` at this place: those of that
/// stream, of which the fork has nothing behind the place, and it.
fn ancestors(content: &Content, view: &View, (path, place): (&str, Place)) -> Box<[Ancestor]> {
    let above = view.meta.lineage.iter().flat_map(|lineage| &lineage.ancestors);
    let paths = above.map(|ancestor| ancestor.path.as_ref()).chain([path]);
    let spans = content.spans.iter().zip(paths).enumerate();
    let ancestors = spans.map(|(number, (span, path))| {
        let end = match number.cmp(&place.span) {
            Ordering::Less => span.end,
            Ordering::Equal => place.position,
            Ordering::Greater => FIRST,
        };
        Ancestor { path: path.into(), id: span.id, end }
    });
    ancestors.collect()
}

/// What a fork has of an append with this data; `None` where it has less.
fn first_part<'b>(data: &'b [u8], fork: &Fork<'_>) -> Option<&'b [u8]> {
    if is_json(fork.content_type) {
        return first_messages(data, fork.sub_offset);
    }
    data.get(..usize::try_from(fork.sub_offset).ok()?)
}

/// The data of a fork's first record.
fn with_prefix(mut prefix: Vec<u8>, fork: &Fork<'_>) -> Result<Vec<u8>, Refusal> {
    if is_json(fork.content_type) && !prefix.is_empty() && !fork.data.is_empty() {
        prefix.push(b',');
    }
    prefix.extend_from_slice(fork.data);
    if prefix.len() > DATA_BYTES_MAX {
        return Err(Refusal::Prefix(DATA_BYTES_MAX));
    }
    Ok(prefix)
}

/// Whether the fork that exists is as it is wanted. What is not said is as it may be.
fn is_same(view: &View, fork: &Fork<'_>) -> bool {
    let Some(lineage) = &view.meta.lineage else { return false };
    let is_at = match fork.at {
        None | Some(Start::Now) => true,
        Some(Start::Beginning) => {
            let oldest = lineage.ancestors.first().map(|oldest| oldest.id);
            (oldest, FIRST) == (Some(lineage.at.id), lineage.at.position)
        }
        Some(Start::At(at)) => at == lineage.at,
    };
    is_at
        && lineage.source().is_some_and(|source| source.path.as_ref() == fork.source)
        && lineage.sub_offset == fork.sub_offset
        && same_type(&view.meta.content_type, fork.content_type)
        && fork.lifetime.is_none_or(|lifetime| lifetime == view.meta.lifetime)
        && view.closed == fork.closed
}

/// Whether the files that were linked are the ancestors': one may have been deleted meanwhile, and
/// another made at its path.
fn check_ancestors(
    file: &Path,
    ancestors: &[Ancestor],
    long_reads: &LongReads,
) -> Result<(), Refusal> {
    for (number, ancestor) in ancestors.iter().enumerate() {
        let (id, _) = file::name(&links::link_of(file, number), long_reads)?;
        if id != ancestor.id {
            return Err(Refusal::Unknown);
        }
    }
    Ok(())
}

fn no_link(error: io::Error) -> Refusal {
    match error.kind() {
        // The source has been deleted meanwhile.
        ErrorKind::NotFound => Refusal::Unknown,
        ErrorKind::TooManyLinks => Refusal::Forks,
        _ => Refusal::Disk(error),
    }
}

#[cfg(test)]
mod tests;
