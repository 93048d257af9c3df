//! All pairs as of one place, for a replica that starts anew.
//!
//! One transaction sees one state however long it takes, and holds up nobody but a load into an
//! empty graph. Rows come sorted, over the index, in batches; what is not taken stays with the
//! server. Names are read first and kept: their text and 12 to 72
//! bytes each.
//!
//! Cost: 15 million pairs of integers in 4.9 s by subscribee, 4.5 s by subscriber, 26 bytes each.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::stream::{Fuse, StreamExt};
use tokio::time::timeout;
use tokio_postgres::CopyOutStream;

use crate::copy::RowReader;
use crate::error::{Doing, PostgresError};
use crate::limits::BATCH_ROWS_MAX;
use crate::place::Place;
use crate::session::Session;
use crate::store::PostgresStore;
use hub::{PairHash, pair_hash};

/// In which order pairs come. Integers in the order of numbers; names before them, in no order that
/// means anything, but each name's pairs are together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By subscribee, then subscriber.
    BySubscribee,
    /// By subscriber, then subscribee.
    BySubscriber,
}

/// An id of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node<'a> {
    /// Below 2^63.
    Integer(u64),
    /// Any other.
    Name {
        /// Its text.
        text: &'a str,
        /// Its place among the names of this bootstrap, from 0 on.
        number: u32,
    },
}

impl std::fmt::Display for Node<'_> {
    /// The id's text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Integer(number) => number.fmt(f),
            Node::Name { text, .. } => f.write_str(text),
        }
    }
}

/// One transaction that reads everything. Dropped, it ends.
#[derive(Debug)]
pub struct Bootstrap {
    session: Session,
    place: Place,
    schema: String,
    /// How long the server may say nothing.
    silence: Duration,
    names: Names,
}

/// The names, in the order in which they came.
#[derive(Debug, Default)]
struct Names {
    text: String,
    ends: Vec<usize>,
    /// Where the name with the id -1 - n is, at n; [`NOWHERE`] where there is none.
    near: Vec<u32>,
    /// Numbers by id, for those that are too far away from the others.
    far: HashMap<i64, u32>,
}

const NOWHERE: u32 = u32::MAX;

/// Ids come from a sequence, which leaves gaps where a transaction failed: so many for each name
/// are 64 bytes of `near`.
const GAPS_MAX: usize = 16;

impl Names {
    fn push(&mut self, id: i64, name: &str) {
        let number = self.ends.len() as u32;
        debug_assert!(number != NOWHERE);
        self.text.push_str(name);
        self.ends.push(self.text.len());
        match usize::try_from(-1 - id) {
            Ok(n) if n < 1 << 16 || n < GAPS_MAX * self.ends.len() => {
                if self.near.len() <= n {
                    self.near.resize((n + 1).next_power_of_two(), NOWHERE);
                }
                self.near[n] = number;
            }
            _ => drop(self.far.insert(id, number)),
        }
        debug_assert_eq!(self.number(id), Some(number), "a name would be taken for another");
    }

    fn number(&self, id: i64) -> Option<u32> {
        let near = usize::try_from(-1 - id).ok().and_then(|n| self.near.get(n).copied());
        near.filter(|&number| number != NOWHERE).or_else(|| self.far.get(&id).copied())
    }

    fn text(&self, number: u32) -> &str {
        let number = number as usize;
        debug_assert!(number < self.ends.len(), "it was looked up when the batch was read");
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }
}

impl PostgresStore {
    /// Begins to read the whole graph, on a connection of its own.
    pub async fn bootstrap(&self) -> Result<Bootstrap, PostgresError> {
        let config = &self.shared.config;
        let session = timeout(config.silence, Session::open(config)).await;
        let session = session.unwrap_or_else(|_| Err(silent(config.silence)))?;
        // The lock comes before the snapshot: a load that fills an empty table in a way that older
        // snapshots would see waits for this, and this for it.
        let begin = config.sql(
            "set statement_timeout = 0; set lock_timeout = 0; set work_mem = '64MB';
             begin isolation level repeatable read read only;
             lock table encke.subscriptions in access share mode",
        );
        let begun = timeout(config.silence, session.run(&begin, Doing::Nothing)).await;
        begun.unwrap_or_else(|_| Err(silent(config.silence)))?;
        let place = session.place().await?;
        let (schema, silence) = (config.schema.clone(), config.silence);
        let mut begun = Bootstrap { session, place, schema, silence, names: Names::default() };
        begun.names = begun.read_names().await?;
        Ok(begun)
    }
}

impl Bootstrap {
    /// Where the graph is that is read.
    pub fn place(&self) -> Place {
        self.place
    }

    /// How many names there are; not all need still have pairs.
    pub fn names(&self) -> usize {
        self.names.ends.len()
    }

    /// Reads all pairs in this order. One after the other, not at the same time.
    pub async fn pairs(&mut self, order: Order) -> Result<Rows<'_>, PostgresError> {
        let columns = match order {
            Order::BySubscribee => "subscribee, subscriber",
            Order::BySubscriber => "subscriber, subscribee",
        };
        let schema = &self.schema;
        let sql = format!(
            "copy (select {columns} from {schema}.subscriptions order by {columns})
             to stdout (format binary)"
        );
        let stream = self.copy_out(&sql).await?;
        let (reader, silence) = (RowReader::new(), self.silence);
        Ok(Rows { stream, silence, reader, names: &self.names, order })
    }

    async fn read_names(&self) -> Result<Names, PostgresError> {
        let schema = &self.schema;
        let sql = format!(
            "copy (select id, name from {schema}.names order by id desc) to stdout (format binary)"
        );
        let mut stream = self.copy_out(&sql).await?;
        let mut reader = RowReader::new();
        let mut names = Names::default();
        while let Some(message) = next_message(&mut stream, self.silence).await? {
            let Some((id, name)) = reader.row(message)? else { continue };
            let name = str::from_utf8(&name)
                .map_err(|_| PostgresError::Damaged(format!("name {id} is not UTF-8")))?;
            names.push(id, name);
        }
        Ok(names)
    }

    async fn copy_out(&self, sql: &str) -> Result<Copied, PostgresError> {
        let started = timeout(self.silence, self.session.client.copy_out(sql)).await;
        let stream = started.map_err(|_| silent(self.silence))?;
        let stream = stream.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
        Ok(Box::pin(stream.fuse()))
    }
}

/// Rows as the server sends them.
type Copied = Pin<Box<Fuse<CopyOutStream>>>;

/// The next message, for which the server has as long as it may say nothing: all of them together
/// take as long as they take.
async fn next_message(
    stream: &mut Copied,
    silence: Duration,
) -> Result<Option<Bytes>, PostgresError> {
    // Most are there already.
    let message = match stream.next().now_or_never() {
        Some(message) => message,
        None => timeout(silence, stream.next()).await.map_err(|_| silent(silence))?,
    };
    message.transpose().map_err(|error| PostgresError::of(&error, Doing::Nothing))
}

fn silent(silence: Duration) -> PostgresError {
    PostgresError::Away(format!("it said nothing for {} s", silence.as_secs()))
}

/// Pairs on their way.
pub struct Rows<'b> {
    stream: Copied,
    silence: Duration,
    reader: RowReader,
    names: &'b Names,
    order: Order,
}

impl Rows<'_> {
    /// The next pairs; `None` when that was all.
    pub async fn next(&mut self) -> Result<Option<Batch<'_>>, PostgresError> {
        let mut rows = Vec::with_capacity(BATCH_ROWS_MAX);
        while rows.len() < BATCH_ROWS_MAX
            && let Some(message) = next_message(&mut self.stream, self.silence).await?
        {
            let Some((first, mut rest)) = self.reader.row(message)? else { continue };
            let second = rest.try_get_i64().map_err(|_| self.unnamed(first))?;
            let (first, second) = (self.code(first)?, self.code(second)?);
            rows.push(match self.order {
                Order::BySubscribee => (second, first),
                Order::BySubscriber => (first, second),
            });
        }
        Ok((!rows.is_empty()).then_some(Batch { rows, names: self.names }))
    }

    /// An integer as it is, a name as -1 - its number.
    fn code(&self, id: i64) -> Result<i64, PostgresError> {
        if id >= 0 {
            return Ok(id);
        }
        let number = self.names.number(id).ok_or_else(|| self.unnamed(id))?;
        Ok(-1 - i64::from(number))
    }

    fn unnamed(&self, id: i64) -> PostgresError {
        PostgresError::Damaged(format!("a pair has the id {id}, which has no name"))
    }
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("order", &self.order).finish_non_exhaustive()
    }
}

/// At most [`BATCH_ROWS_MAX`] pairs.
#[derive(Debug)]
pub struct Batch<'b> {
    rows: Vec<(i64, i64)>,
    names: &'b Names,
}

impl<'b> Batch<'b> {
    /// The pairs, subscriber first.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (Node<'b>, Node<'b>)> + '_ {
        self.rows.iter().map(|&(a, b)| (self.node(a), self.node(b)))
    }

    /// What each pair adds to the set hash, and to which bucket.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = PairHash> + '_ {
        let mut texts = [String::new(), String::new()];
        self.pairs().map(move |(a, b)| {
            for (text, node) in texts.iter_mut().zip([a, b]) {
                text.clear();
                // Writing to a string does not fail.
                let _ = std::fmt::Write::write_fmt(text, format_args!("{node}"));
            }
            pair_hash(&texts[0], &texts[1])
        })
    }

    fn node(&self, id: i64) -> Node<'b> {
        match u64::try_from(id) {
            Ok(number) => Node::Integer(number),
            // As the batch was read.
            Err(_) => {
                let number = (-1 - id) as u32;
                Node::Name { text: self.names.text(number), number }
            }
        }
    }
}
