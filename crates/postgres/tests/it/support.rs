//! What the tests share.

use postgres::{Order, Pair, Place, PostgresConfig, PostgresStore, Source};
use testing::postgres::Postgres;

pub(crate) use testing::DEADLINE;

/// Runs `test` on a runtime, to its deadline.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("too slow") });
}

/// A server that need not survive more than its own end.
pub(crate) fn server() -> Option<Postgres> {
    Postgres::start(&["fsync=off"])
}

pub(crate) fn config(server: &Postgres) -> PostgresConfig {
    PostgresConfig::from_url(&server.url()).unwrap()
}

pub(crate) async fn connect(server: &Postgres) -> PostgresStore {
    PostgresStore::connect(config(server)).await.unwrap()
}

/// A table of the application.
pub(crate) const TABLE: &str =
    "create table follows (a bigint, b bigint, at date, primary key (a, b))";

/// [`TABLE`] as the graph.
pub(crate) fn follows() -> Source {
    let [table, subscriber, subscribee] = ["follows", "a", "b"].map(str::to_owned);
    Source { table, subscriber, subscribee }
}

/// Table and graph are the same.
pub(crate) async fn same(store: &PostgresStore, when: &str) {
    let differences = store.source_differences(3).await.unwrap();
    assert_eq!(differences.total, 0, "{when}: {differences}");
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<Pair> {
    pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// All pairs, sorted by their text, as a bootstrap gives them; both orders have the same, and they
/// sum up to the hash.
pub(crate) async fn stored(store: &PostgresStore) -> (Place, Vec<Pair>) {
    let mut bootstrap = store.bootstrap().await.unwrap();
    let place = bootstrap.place();
    let mut orders = Vec::new();
    for order in [Order::BySubscribee, Order::BySubscriber] {
        let mut all = Vec::new();
        let mut rows = bootstrap.pairs(order).await.unwrap();
        while let Some(batch) = rows.next().await.unwrap() {
            all.extend(batch.pairs().map(|(a, b)| (a.to_string(), b.to_string())));
        }
        all.sort();
        orders.push(all);
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(sum(&orders[0]), place.hash, "{place:?}");
    (place, orders.swap_remove(0))
}

pub(crate) fn sum(pairs: &[Pair]) -> u64 {
    pairs.iter().fold(0, |sum: u64, (a, b)| sum.wrapping_add(hub::pair_hash(a, b).hash))
}
