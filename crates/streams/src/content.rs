//! The content of a stream: what it has of its ancestors, then its own.

use std::path::PathBuf;

use crate::file::{self, Reader};
use crate::links::link_of;
use crate::long_reads::LongReads;
use crate::offset::{Offset, Start};
use crate::record::FIRST;
use crate::refusal::Refusal;
use crate::stream::View;

/// The files that have a stream's content, in the order of its offsets.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) spans: Vec<Span>,
}

/// A part of a stream's content: all of a file's records up to a place.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) file: PathBuf,
    pub(crate) id: u64,
    pub(crate) end: u64,
}

/// A place in a stream's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The number of the span.
    pub(crate) span: usize,
    pub(crate) position: u64,
}

impl Content {
    /// What the stream in `file` has.
    pub(crate) fn of(file: PathBuf, view: &View) -> Content {
        let ancestors = view.meta.lineage.iter().flat_map(|lineage| &lineage.ancestors);
        let inherited = ancestors.enumerate().map(|(number, ancestor)| Span {
            file: link_of(&file, number),
            id: ancestor.id,
            end: ancestor.end,
        });
        let mut spans: Vec<Span> = inherited.collect();
        spans.push(Span { file, id: view.meta.id, end: view.tail });
        Content { spans }
    }

    /// Its tail.
    pub(crate) fn tail(&self) -> Place {
        let span = self.spans.len() - 1;
        Place { span, position: self.spans[span].end }
    }

    /// The place at which a reader wants to begin. Whether a record begins there is not known yet.
    pub(crate) fn place(&self, start: Start) -> Result<Place, Refusal> {
        let Offset { id, position } = match start {
            Start::Beginning => return Ok(Place { span: 0, position: FIRST }),
            Start::Now => return Ok(self.tail()),
            Start::At(offset) => offset,
        };
        match self.spans.iter().position(|span| span.id == id) {
            Some(span) if (FIRST..=self.spans[span].end).contains(&position) => {
                Ok(Place { span, position })
            }
            Some(_) => Err(Refusal::BadOffset),
            // Of a stream that was here before. Its number is greater where the clock was set back
            // since.
            None => Err(Refusal::OldOffset),
        }
    }

    /// The offset of a place.
    pub(crate) fn offset(&self, place: Place) -> Offset {
        Offset { id: self.spans[place.span].id, position: place.position }
    }

    /// Whether a record ends at `place`, or the file begins there, by all records before it. Long
    /// ones are read with a permit of `long_reads`, if at all.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(crate) fn is_boundary(
        &self,
        place: Place,
        long_reads: Option<&LongReads>,
    ) -> Result<bool, Refusal> {
        let Span { file, end, .. } = &self.spans[place.span];
        let file = file::open(file)?;
        let mut reader = Reader::between(&file, (FIRST, *end), long_reads);
        while reader.position < place.position {
            let begun = reader.position;
            if reader.next()?.is_none() {
                return Err(Refusal::Damaged(begun));
            }
        }
        Ok(reader.position == place.position)
    }

    /// Calls `take` with the data of each record from `place` on, until it says that it has enough.
    /// Where that is. Long records are read with a permit of `long_reads`, if at all: `take` must
    /// wait for nothing.
    pub(crate) fn read(
        &self,
        place: Place,
        long_reads: Option<&LongReads>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<Place, Refusal> {
        let is_made_up = |begun: Place| begun == place && place.position != FIRST;
        let mut at = place;
        for (number, span) in self.spans.iter().enumerate().skip(place.span) {
            if number > place.span {
                at = Place { span: number, position: FIRST };
            }
            if at.position == span.end {
                continue;
            }
            let file = file::open(&span.file)?;
            // The permit of the one before is given back: nobody waits for a second one.
            let mut reader = Reader::between(&file, (at.position, span.end), long_reads);
            while reader.position < span.end {
                let begun = Place { span: number, position: reader.position };
                let record = match reader.next() {
                    Ok(Some(record)) => record,
                    // No record begins here: the client has made the offset itself.
                    Ok(None) | Err(Refusal::Damaged(_)) if is_made_up(begun) => {
                        return Err(Refusal::BadOffset);
                    }
                    Ok(None) => return Err(Refusal::Damaged(begun.position)),
                    Err(error) => return Err(error),
                };
                let is_enough = take(record.data());
                at.position = reader.position;
                if is_enough {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }
}
