//! A file of pairs into the graph: read all, sort, write, in one transaction.
//!
//! Into an empty graph the pairs are copied in order and the indices made when all is there. The
//! graph gets another lineage, so replicas take it whole. Into one that has pairs, and where they
//! fit into one version, they go as changes, 65,536 a version. Whoever dies in the middle, nothing
//! was loaded. While it writes, changes wait, and are refused as away when that takes too long.
//!
//! Cost: 16 bytes of memory a pair and some 100 a name. 15 million pairs into an empty graph take
//! 21 s of a busy machine (`cargo bench --package postgres`), into a filled one minutes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::SinkExt;

use crate::copy::RowWriter;
use crate::error::{Doing, PostgresError};
use crate::limits::{GROUP_PAIRS_MAX, LOAD_CHUNK_BYTES, LOAD_MERGED_MAX, LOAD_PAIRS_MAX};
use crate::pair::integer_of;
use crate::place::Place;
use crate::session::{Session, place};
use crate::shared::Seen;
use crate::store::PostgresStore;
use hub::pair_hash;

/// What is told as being done from when on all pairs may be loaded, also if nobody waits any more.
pub const COMMITTING: &str = "committing";

/// Pairs that are to be loaded.
pub struct Load {
    store: PostgresStore,
    rows: Vec<(i64, i64)>,
    /// Numbered -1, -2 and so on.
    ids: HashMap<Box<str>, i64>,
    /// How many pairs there may be, and how many into a graph that has some.
    pairs_max: usize,
    merged_max: usize,
    /// From how many pairs on an empty graph is filled.
    fills_min: usize,
    tell: Tell,
}

/// Is told what is being done, and how much of how many pairs is.
type Tell = Box<dyn FnMut(&'static str, u64, u64) + Send>;

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("pairs", &self.rows.len()).finish_non_exhaustive()
    }
}

/// What a load did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Where the graph is now.
    pub place: Place,
    /// Pairs that were not there before.
    pub added: u64,
}

impl PostgresStore {
    /// Begins a load. Nothing goes to the database before [`Load::finish`].
    pub fn load(&self) -> Load {
        Load {
            store: self.clone(),
            rows: Vec::new(),
            ids: HashMap::new(),
            pairs_max: LOAD_PAIRS_MAX,
            merged_max: LOAD_MERGED_MAX,
            fills_min: GROUP_PAIRS_MAX + 1,
            tell: Box::new(|_, _, _| {}),
        }
    }
}

impl Load {
    /// Other bounds than [`LOAD_PAIRS_MAX`] and [`LOAD_MERGED_MAX`].
    #[must_use]
    pub fn bounded(self, pairs_max: usize, merged_max: usize) -> Load {
        Load { pairs_max, merged_max, ..self }
    }

    /// Fills an empty graph as another lineage even where the pairs fit into one version.
    #[must_use]
    pub fn whole(self) -> Load {
        Load { fills_min: 0, ..self }
    }

    /// Tells what is being done from now on, and how many pairs of how many are.
    pub fn on_progress(&mut self, tell: impl FnMut(&'static str, u64, u64) + Send + 'static) {
        self.tell = Box::new(tell);
    }

    /// One more pair; the same one twice is no harm. [`PostgresError::Refused`] where there are too
    /// many.
    pub fn push(&mut self, subscriber: &str, subscribee: &str) -> Result<(), PostgresError> {
        if self.rows.len() >= self.pairs_max {
            return Err(PostgresError::Refused(format!(
                "there are more than {} pairs, which is more than one load takes: load the rest \
                 as changes, in pieces",
                self.pairs_max
            )));
        }
        let row = (self.id(subscriber)?, self.id(subscribee)?);
        self.rows.push(row);
        Ok(())
    }

    fn id(&mut self, text: &str) -> Result<i64, PostgresError> {
        if let Some(number) = integer_of(text)? {
            return Ok(number);
        }
        if let Some(&id) = self.ids.get(text) {
            return Ok(id);
        }
        let id = -1 - self.ids.len() as i64;
        debug_assert!(id < 0, "it would be taken for an integer's");
        self.ids.insert(text.into(), id);
        Ok(id)
    }

    /// Writes all pairs, or none.
    pub async fn finish(self) -> Result<Loaded, PostgresError> {
        let Load { store, mut rows, ids, merged_max, fills_min, mut tell, .. } = self;
        tell("sorting", 0, rows.len() as u64);
        let mut names = vec![""; ids.len()];
        for (name, id) in &ids {
            names[(-1 - id) as usize] = name;
        }
        // By subscribee, then subscriber: the order of the first index.
        rows.sort_unstable_by_key(|&(a, b)| (b, a));
        rows.dedup();
        debug_assert!(names.iter().all(|name| !name.is_empty()), "each number is some name's");
        let session = Session::open(&store.shared.config).await?;
        let (rows, names, tell) = (&rows[..], &names[..], Mutex::new(tell));
        let writing = Writing { store: &store, session, rows, names, merged_max, fills_min, tell };
        let loaded = writing.run().await?;
        store.shared.see(Seen::At(loaded.place));
        Ok(loaded)
    }
}

struct Writing<'l> {
    store: &'l PostgresStore,
    session: Session,
    rows: &'l [(i64, i64)],
    names: &'l [&'l str],
    merged_max: usize,
    fills_min: usize,
    tell: Mutex<Tell>,
}

impl Writing<'_> {
    async fn run(&self) -> Result<Loaded, PostgresError> {
        self.sql(
            "set statement_timeout = 0; set lock_timeout = 0; set maintenance_work_mem = '256MB';
             begin; select from encke.version for update;
             select encke.refuse_where_a_table_is_the_graph()",
        )
        .await?;
        let sql = self.config_sql("select not exists (select from encke.subscriptions)");
        let row = self.session.client.query_one(&sql, &[]).await;
        let row = row.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
        // What is one version is obeyed at once; who must take the graph whole takes some time.
        let fills = row.get(0) && self.rows.len() >= self.fills_min;
        let added = if fills { self.fill().await? } else { self.merge().await? };
        self.told(COMMITTING, self.rows.len());
        let place = self.session.place().await?;
        self.session.run("commit", Doing::Commit).await?;
        Ok(Loaded { place, added })
    }

    /// Nobody reads the table meanwhile (truncate waits for bootstraps), so rows may be written as
    /// if they had been there for ever (`freeze`), which spares the database to visit them again.
    async fn fill(&self) -> Result<u64, PostgresError> {
        self.sql(
            "truncate encke.subscriptions;
             alter table encke.subscriptions drop constraint subscriptions_by_subscribee;
             drop index encke.subscriptions_by_subscriber;
             delete from encke.names",
        )
        .await?;
        let named = (-1_i64).checked_mul(self.names.len() as i64);
        let ids = named.into_iter().flat_map(|last| (last..0).rev());
        let mut names = ids.zip(self.names);
        let copy = "copy encke.names (id, name) from stdin (format binary)";
        self.copy_in(copy, |out| names.next().map(|(id, name)| out.name(id, name)).is_some())
            .await?;
        let mut hash = 0_u64;
        let mut written = 0;
        let mut rows = self.rows.iter();
        let mut texts = [String::new(), String::new()];
        let copy = "copy encke.subscriptions (subscriber, subscribee) from stdin
            (format binary, freeze)";
        self.copy_in(copy, |out| {
            let Some(&(a, b)) = rows.next() else { return false };
            out.integers(a, b);
            written += 1;
            if written % GROUP_PAIRS_MAX == 0 {
                self.told("writing", written);
            }
            for (text, id) in texts.iter_mut().zip([a, b]) {
                self.text(id, text);
            }
            hash = hash.wrapping_add(pair_hash(&texts[0], &texts[1]).hash);
            true
        })
        .await?;
        debug_assert_eq!(written, self.rows.len(), "the hash is that of all pairs");
        let (names, hash) = (self.names.len(), hash as i64);
        self.told("indexing", 0);
        self.sql(&format!(
            "select setval('encke.name_ids', -greatest({names}, 1), {names} > 0);
             alter table encke.subscriptions
                 add constraint subscriptions_by_subscribee primary key (subscribee, subscriber);
             create unique index subscriptions_by_subscriber
                 on encke.subscriptions (subscriber, subscribee);
             analyze encke.subscriptions, encke.names;
             delete from encke.changes;
             update encke.version
                 set lineage = gen_random_uuid(), version = version + 1, hash = '{hash}'",
        ))
        .await?;
        Ok(self.rows.len() as u64)
    }

    async fn merge(&self) -> Result<u64, PostgresError> {
        if self.rows.len() > self.merged_max {
            return Err(PostgresError::Refused(format!(
                "the graph has subscriptions already, and {} more at once would hold up all other \
                 changes for too long: load at most {} at a time, or all of them into an empty \
                 graph",
                self.rows.len(),
                self.merged_max
            )));
        }
        let sql = "select uuid_send(new_lineage), new_version, new_hash,
                (select count(*) from regexp_matches(convert_from(did_add, 'UTF8'), '\\n', 'g'))
            from encke.commit($1, $2, '{}', '{}')";
        let statement = self.session.client.prepare(&self.config_sql(sql)).await;
        let statement = statement.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
        let (mut added, mut done) = (0, 0);
        for slice in self.rows.chunks(GROUP_PAIRS_MAX) {
            let texts = |id: fn(&(i64, i64)) -> i64| -> Vec<String> {
                let text = |row| {
                    let mut text = String::new();
                    self.text(id(row), &mut text);
                    text
                };
                slice.iter().map(text).collect()
            };
            let (a, b) = (texts(|row| row.0), texts(|row| row.1));
            let row = self.session.client.query_one(&statement, &[&a, &b]).await;
            let row = row.map_err(|error| PostgresError::of(&error, Doing::Nothing))?;
            place(&row)?;
            added += row.get::<_, i64>(3) as u64;
            done += slice.len();
            self.told("writing", done);
        }
        debug_assert_eq!(done, self.rows.len());
        Ok(added)
    }

    /// Sends rows until `next` has no more.
    async fn copy_in(
        &self,
        sql: &str,
        mut next: impl FnMut(&mut RowWriter) -> bool,
    ) -> Result<(), PostgresError> {
        let fails = |error: tokio_postgres::Error| PostgresError::of(&error, Doing::Nothing);
        let sql = self.config_sql(sql);
        let mut sink =
            Box::pin(self.session.client.copy_in::<_, Bytes>(&sql).await.map_err(fails)?);
        let mut out = RowWriter::new();
        while next(&mut out) {
            if out.len() >= LOAD_CHUNK_BYTES {
                sink.send(out.take()).await.map_err(fails)?;
            }
        }
        out.end();
        sink.send(out.take()).await.map_err(fails)?;
        sink.as_mut().finish().await.map_err(fails)?;
        Ok(())
    }

    fn told(&self, what: &'static str, done: usize) {
        let mut tell = self.tell.lock().unwrap_or_else(PoisonError::into_inner);
        (*tell)(what, done as u64, self.rows.len() as u64);
    }

    fn text(&self, id: i64, text: &mut String) {
        text.clear();
        match usize::try_from(-1 - id) {
            Ok(n) if id < 0 => text.push_str(self.names[n]),
            _ => text.push_str(&id.to_string()),
        }
    }

    async fn sql(&self, sql: &str) -> Result<(), PostgresError> {
        self.session.run(&self.config_sql(sql), Doing::Nothing).await
    }

    fn config_sql(&self, sql: &str) -> String {
        self.store.shared.config.sql(sql)
    }
}
