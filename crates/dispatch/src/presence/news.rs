//! What listeners are told, in pieces that all of them share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// Bytes of a piece's lines past which another one is begun.
const PIECE_BYTES: usize = 16 * 1024;

/// One thing that listeners are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// The first connection of an id has come.
    Online(Box<str>),
    /// Its last one has been gone for the grace.
    Offline(Box<str>),
    /// Some of both may be missing here: ask anew about whom you must know.
    Lost,
}

/// Some of them in their order.
#[derive(Debug)]
pub struct Piece {
    /// Each change.
    pub news: Vec<News>,
    lines: Bytes,
    sse: OnceLock<Bytes>,
}

/// Pieces that grow.
#[derive(Default)]
pub(super) struct Writer {
    news: Vec<News>,
    lines: Vec<u8>,
}

impl News {
    /// The JSON, without a line's end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (name, id) = match self {
            News::Online(id) => ("online", id),
            News::Offline(id) => ("offline", id),
            News::Lost => return out.extend_from_slice(br#"{"lost":true}"#),
        };
        out.extend_from_slice(format!("{{\"{name}\":").as_bytes());
        serde_json::to_writer(&mut *out, id).expect("text is written to memory");
        out.push(b'}');
    }
}

impl Piece {
    /// A line for each, as NDJSON streams have them.
    pub fn lines(&self) -> Bytes {
        self.lines.clone()
    }

    /// An event for each, as `EventSource` reads them. Made for the first who wants it.
    pub fn sse(&self) -> Bytes {
        let make = || {
            let mut out = Vec::with_capacity(self.lines.len() + 8 * self.news.len());
            for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            out.into()
        };
        self.sse.get_or_init(make).clone()
    }

    /// The only thing that is told to one who was too slow.
    pub fn lost() -> Arc<Piece> {
        let mut writer = Writer::default();
        writer.push(News::Lost);
        writer.finish().expect("it has one")
    }
}

impl Writer {
    /// Puts `news` behind those that are there; returns the piece when that is full.
    pub(super) fn push(&mut self, news: News) -> Option<Arc<Piece>> {
        news.write(&mut self.lines);
        self.lines.push(b'\n');
        self.news.push(news);
        if self.lines.len() >= PIECE_BYTES { self.finish() } else { None }
    }

    /// What is there, if anything.
    pub(super) fn finish(&mut self) -> Option<Arc<Piece>> {
        let Writer { news, lines } = std::mem::take(self);
        let is_empty = news.is_empty();
        let piece = || Arc::new(Piece { news, lines: lines.into(), sse: OnceLock::new() });
        (!is_empty).then(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_one_line_or_one_event_each_whatever_the_id_is() {
        let mut writer = Writer::default();
        assert!(writer.push(News::Online("123".into())).is_none());
        assert!(writer.push(News::Offline("a\"b\\é".into())).is_none());
        assert!(writer.push(News::Lost).is_none());
        let piece = writer.finish().unwrap();
        assert!(writer.finish().is_none());
        let lines = "{\"online\":\"123\"}\n{\"offline\":\"a\\\"b\\\\é\"}\n{\"lost\":true}\n";
        assert_eq!(piece.lines(), lines);
        let sse: String = lines.lines().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(piece.sse(), sse);
    }

    #[test]
    fn piece_is_full_at_its_bound() {
        let (mut writer, mut pieces, id) = (Writer::default(), Vec::new(), "x".repeat(255));
        (0..1_000).for_each(|_| pieces.extend(writer.push(News::Online(id.clone().into()))));
        pieces.extend(writer.finish());
        assert_eq!(pieces.iter().map(|piece| piece.news.len()).sum::<usize>(), 1_000);
        assert!(pieces.iter().all(|piece| piece.lines().len() < PIECE_BYTES + 300));
    }
}
