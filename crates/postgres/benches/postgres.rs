//! Figures of `PostgresStore` and a PostgreSQL of its own, with the server's defaults (a commit
//! waits for its disk): `cargo bench --package postgres --bench postgres [-- PAIRS]`. With
//! `--names` all ids are names, and only the load, the reading out and the sums are measured. With
//! `--rows` it takes only rows of a table that is the graph, beside rows of one that is not, and of
//! one with the tables of version 4. It measures the processor time of the server's process, which
//! runs the statements in a loop. So a client's part and the disk's are not in it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is run by hand and prints figures"
)]

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use postgres::{Order, Pair, PostgresConfig, PostgresStore, Source};
use testing::postgres::{Postgres, sql_at};

fn main() {
    let pairs = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = ["max_wal_size=8GB", "shared_buffers=1GB"];
    let Some(server) = Postgres::start(&settings) else { return };
    runtime.block_on(async {
        let store =
            PostgresStore::connect(PostgresConfig::from_url(&server.url()).unwrap()).await.unwrap();
        if std::env::args().any(|argument| argument == "--rows") {
            install(&store, &server).await;
            return rows(&server);
        }
        let names = std::env::args().any(|argument| argument == "--names");
        load(&store, pairs.unwrap_or(1_000_000), if names { "user:" } else { "" }).await;
        copy_out(&store).await;
        if names {
            return;
        }
        changes(&store, 1, 1, 2000).await;
        changes(&store, 10, 1, 1000).await;
        changes(&store, 1, 100, 200).await;
        changes(&store, 10, 100, 100).await;
        install(&store, &server).await;
        rows(&server);
    });
}

async fn load(store: &PostgresStore, pairs: u64, prefix: &str) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut load = store.load();
    let start = Instant::now();
    for n in 0..pairs {
        // Some 15 each, as in a friends graph.
        let (a, b) = (random.u64(0..pairs / 15), n / 15);
        load.push(&format!("{prefix}{a}"), &format!("{prefix}{b}")).unwrap();
    }
    let (read, start) = (start.elapsed(), Instant::now());
    let loaded = load.finish().await.unwrap();
    println!("load {}: read {read:.2?}, written {:.2?}", loaded.added, start.elapsed());
}

async fn copy_out(store: &PostgresStore) {
    let start = Instant::now();
    let mut bootstrap = store.bootstrap().await.unwrap();
    println!("read {} names: {:.2?}", bootstrap.names(), start.elapsed());
    for order in [Order::BySubscribee, Order::BySubscriber] {
        let (start, mut count) = (Instant::now(), 0);
        let mut rows = bootstrap.pairs(order).await.unwrap();
        while let Some(batch) = rows.next().await.unwrap() {
            count += batch.pairs().len();
        }
        println!("copy {count} {order:?}: {:.2?}", start.elapsed());
    }
    let start = Instant::now();
    let sums = store.bucket_sums().await.unwrap();
    println!("bucket sums of {}: {:.2?}", sums.pairs, start.elapsed());
}

async fn changes(store: &PostgresStore, writers: u64, pairs: u64, rounds: u64) {
    let before = store.changes_after(bootstrap_place(store).await).await.unwrap().head.version;
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(writer * 1000 + pairs);
                let mut times: Vec<Duration> = Vec::new();
                for _ in 0..rounds {
                    let mut id = || random.u64(0..1_000_000).to_string();
                    let added: Vec<Pair> = (0..pairs).map(|_| (id(), id())).collect();
                    let start = Instant::now();
                    store.change(added, vec![]).await.unwrap();
                    times.push(start.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let took = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let versions = bootstrap_place(store).await.version - before;
    println!(
        "{writers} writers of {pairs} pairs: {:.0} changes/s, {:.0} pairs/s, {versions} versions, \
         p50 {:.2?}, p99 {:.2?}",
        times.len() as f64 / took,
        times.len() as f64 * pairs as f64 / took,
        at(0.5),
        at(0.99)
    );
}

async fn bootstrap_place(store: &PostgresStore) -> postgres::Place {
    store.bootstrap().await.unwrap().place()
}

/// Fills `follows`.
const FOLLOWS: &str = "create table follows (follower bigint, followee bigint);
    insert into follows select distinct (random() * 66666)::bigint, n / 15
        from generate_series(1, 1000000) n;
    alter table follows add primary key (follower, followee)";

async fn install(store: &PostgresStore, server: &Postgres) {
    let empty = "delete from encke.subscriptions; update encke.version set hash = 0;";
    server.sql(&format!("{empty} {FOLLOWS}")).unwrap();
    let [table, subscriber, subscribee] = ["follows", "follower", "followee"].map(str::to_owned);
    let source = Source { table, subscriber, subscribee };
    let start = Instant::now();
    store.install(&source).await.unwrap();
    println!("install 1000000: {:.2?}", start.elapsed());
    let start = Instant::now();
    store.install(&source).await.unwrap();
    println!("compare 1000000: {:.2?}", start.elapsed());
    let start = Instant::now();
    server.sql("delete from follows where follower < 10000").unwrap();
    println!("delete of 150000 rows by SQL: {:.2?}", start.elapsed());
}

/// The migrations up to the fourth.
const BEFORE: [&str; 4] = [
    include_str!("../src/sql/1.sql"),
    include_str!("../src/sql/2.sql"),
    include_str!("../src/sql/3.sql"),
    include_str!("../src/sql/4.sql"),
];

/// Another database, whose tables are those of version 4; returns its URL.
fn before(server: &Postgres) -> String {
    server.sql("create database before").unwrap();
    let url = server.url().replace("/postgres?", "/before?");
    let migrations = BEFORE.concat();
    let install = "select encke.install('follows', 'follower', 'followee')";
    for sql in [&format!("create schema encke; {migrations}"), FOLLOWS, install] {
        sql_at(&url, sql).unwrap();
    }
    url
}

/// What a row takes of a table that is the graph, now and with the tables of version 4, and of one
/// without triggers.
fn rows(server: &Postgres) {
    let tables = "create table plain (like follows including all);
        create table measured (at serial, nanoseconds bigint)";
    let (before, now) = (before(server), server.url());
    for url in [&before, &now] {
        sql_at(url, tables).unwrap();
    }
    let insert = "insert into TABLE values (1000000 + t, r)";
    let delete = "delete from TABLE where follower = 1000000 + t and followee = r";
    for (name, statement, transactions, rows) in [
        ("inserted, one in a transaction", insert, 2_000, 1),
        ("deleted, one in a transaction", delete, 2_000, 1),
        ("inserted, 1,000 in a transaction", insert, 20, 1_000),
    ] {
        // By turns: what else the machine does slows all of them alike.
        let mut took = [(); 3].map(|()| Vec::new());
        let places = [(&now, "plain"), (&before, "follows"), (&now, "follows")];
        for round in 0..ROUNDS {
            for ((url, table), took) in places.iter().zip(&mut took) {
                let statement = statement.replace("TABLE", table);
                let first = round * transactions + 1;
                let last = first + transactions - 1;
                took.push(processor_time(url, &statement, first..=last, rows));
            }
        }
        let [plain, before, now] = took.map(|mut took| {
            took.sort_unstable_by(f64::total_cmp);
            took[took.len() / 2] / f64::from(transactions * rows)
        });
        println!(
            "a row {name}: {now:.3} ms of a processor, {before:.3} ms with tables of version 4, \
             {plain:.3} ms without triggers"
        );
    }
}

/// How often each is measured; the median counts.
const ROUNDS: i32 = 5;

/// Milliseconds that the server's process takes for `rows` statements in each of the transactions.
fn processor_time(url: &str, statement: &str, transactions: RangeInclusive<i32>, rows: i32) -> f64 {
    let (first, last) = transactions.into_inner();
    let sql = format!(
        "do $$ declare
             now constant text := 'select split_part(
                 pg_read_file(''/proc/self/schedstat''), '' '', 1)::bigint';
             began bigint;
             ended bigint;
         begin
             execute now into began;
             for t in {first}..{last} loop
                 for r in 1..{rows} loop {statement}; end loop;
                 commit;
             end loop;
             execute now into ended;
             insert into measured (nanoseconds) values (ended - began);
         end $$"
    );
    sql_at(url, &sql).unwrap();
    let took = "select nanoseconds from measured order by at desc limit 1";
    let took: f64 = sql_at(url, took).unwrap().parse().unwrap();
    took / 1e6
}
