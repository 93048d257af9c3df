//! PostgreSQL's binary COPY format for rows of a bigint and another field, both ways.
//!
//! There is a header of 19 bytes, then each row. A row is the number of its fields in 2 bytes, each
//! field's length in 4 and the field. In the end comes -1 for the number of fields. All big endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::PostgresError;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags, length of an extension that there is not.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// A row of two bigints: 26 bytes.
#[derive(Debug)]
pub(crate) struct RowReader {
    header_read: bool,
}

impl RowReader {
    pub(crate) fn new() -> RowReader {
        RowReader { header_read: false }
    }

    /// The row in a message of the server, which sends one a message; `None` for the end. The
    /// header may stand before the first.
    pub(crate) fn row(
        &mut self,
        mut message: Bytes,
    ) -> Result<Option<(i64, Bytes)>, PostgresError> {
        let damaged = || PostgresError::Damaged("COPY sent what is no row of two fields".into());
        if !self.header_read {
            if message.len() < HEADER_BYTES || !message.starts_with(SIGNATURE) {
                return Err(damaged());
            }
            message.advance(HEADER_BYTES);
            self.header_read = true;
            if message.is_empty() {
                return Ok(None);
            }
        }
        if message.try_get_i16().map_err(|_| damaged())? != 2 {
            return Ok(None);
        }
        if message.try_get_i32().map_err(|_| damaged())? != 8 {
            return Err(damaged());
        }
        let first = message.try_get_i64().map_err(|_| damaged())?;
        let length = message.try_get_i32().map_err(|_| damaged())?;
        if usize::try_from(length) != Ok(message.len()) {
            return Err(damaged());
        }
        Ok(Some((first, message)))
    }
}

/// What a client sends.
#[derive(Debug)]
pub(crate) struct RowWriter(BytesMut);

impl RowWriter {
    pub(crate) fn new() -> RowWriter {
        let mut bytes = BytesMut::new();
        bytes.put_slice(SIGNATURE);
        bytes.put_bytes(0, 8);
        RowWriter(bytes)
    }

    pub(crate) fn integers(&mut self, first: i64, second: i64) {
        self.field_count();
        self.integer(first);
        self.integer(second);
    }

    pub(crate) fn name(&mut self, id: i64, name: &str) {
        self.field_count();
        self.integer(id);
        debug_assert!(id < 0 && (1..=hub::ID_BYTES_MAX).contains(&name.len()));
        // An id has at most 255 bytes.
        self.0.put_i32(name.len() as i32);
        self.0.put_slice(name.as_bytes());
    }

    pub(crate) fn end(&mut self) {
        self.0.put_i16(-1);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self) -> Bytes {
        self.0.split().freeze()
    }

    fn field_count(&mut self) {
        self.0.put_i16(2);
    }

    fn integer(&mut self, value: i64) {
        self.0.put_i32(8);
        self.0.put_i64(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let mut writer = RowWriter::new();
        let header = writer.take();
        writer.integers(-1, i64::MAX);
        let row = writer.take();
        assert_eq!(row.len(), 26);
        writer.name(-2, "é");
        let name = writer.take();
        writer.end();
        for first in [[header.clone(), row.clone()].concat(), header.to_vec()] {
            let mut reader = RowReader::new();
            let joined = first.len() > HEADER_BYTES;
            let read = reader.row(first.into()).unwrap();
            assert_eq!(read.is_some(), joined);
            let (id, rest) = reader.row(row.clone()).unwrap().unwrap();
            assert_eq!((id, &rest[..]), (-1, &i64::MAX.to_be_bytes()[..]));
            let (id, rest) = reader.row(name.clone()).unwrap().unwrap();
            assert_eq!((id, &rest[..]), (-2, "é".as_bytes()));
            assert!(reader.row(writer.0.clone().freeze()).unwrap().is_none());
        }
    }

    #[test]
    fn what_is_cut_is_no_row() {
        let mut writer = RowWriter::new();
        writer.integers(1, 2);
        let whole = writer.take();
        for end in 0..whole.len() {
            let mut reader = RowReader::new();
            let row = reader.row(whole.slice(..end));
            assert!(end == HEADER_BYTES || row.is_err(), "{end}: {row:?}");
        }
    }
}
