//! Files of pairs, and the daily check.

use hub::{PairHash, pair_hash};
use postgres::{BucketSums, PostgresError, PostgresStore, Rebuild};

use crate::model::Replica;
use crate::support::{connect, pairs, run, server, stored};

async fn load(store: &PostgresStore, added: &[(&str, &str)]) -> postgres::Loaded {
    let mut load = store.load().whole();
    for (a, b) in added {
        load.push(a, b).unwrap();
    }
    load.finish().await.unwrap()
}

const PAIRS: [(&str, &str); 6] =
    [("1", "2"), ("alice", "rj"), ("007", "7"), ("7", "o'r"), ("1", "2"), ("alice", "1")];

#[test]
fn load_into_an_empty_graph_is_another_lineage_and_into_a_filled_one_changes() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let empty = stored(&store).await.0;
        let filled = load(&store, &PAIRS).await;
        let mut replica = Replica::bootstrap(&store).await;
        assert_eq!((filled.added, filled.place), (5, replica.place));
        assert_eq!(replica.pairs.len(), 5);
        let lineage = store.changes_after(empty).await;
        assert_eq!(lineage, Err(PostgresError::Rebuild(Rebuild::LineageChanged)));

        store.change(pairs(&[("new", "alice")]), vec![]).await.unwrap();
        let merged = load(&store, &[("1", "2"), ("x", "new"), ("3", "4"), ("alice", "rj")]).await;
        assert_eq!((merged.added, merged.place.version), (2, filled.place.version + 2));
        replica.catch_up(&store).await.unwrap();
        assert_eq!(stored(&store).await, (merged.place, replica.sorted()));

        // Emptied, with names that are still there, and filled once more.
        store.change(vec![], replica.sorted()).await.unwrap();
        assert_eq!(load(&store, &PAIRS).await.added, 5);
        assert_eq!(stored(&store).await.1.len(), 5);
        store.change(pairs(&[("another", "name")]), vec![]).await.unwrap();
        assert_eq!(stored(&store).await.1.len(), 6);
        assert_eq!(load(&store, &[]).await.added, 0);
    });
}

/// Who reads while the graph is filled sees it as it was when they began.
#[test]
fn bootstrap_that_began_before_a_load_sees_nothing_of_it() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let mut bootstrap = store.bootstrap().await.unwrap();
        let place = bootstrap.place();
        let loading = store.clone();
        let load = tokio::spawn(async move { load(&loading, &PAIRS).await });
        let waits = "select count(*) from pg_locks where not granted";
        while server.sql(waits).unwrap() == "0" {}
        let mut rows = bootstrap.pairs(postgres::Order::BySubscriber).await.unwrap();
        assert!(rows.next().await.unwrap().is_none());
        drop(rows);
        drop(bootstrap);
        assert_eq!(load.await.unwrap().place.version, place.version + 1);
        assert_eq!(stored(&store).await.1.len(), 5);
    });
}

#[test]
fn bucket_sums_are_those_of_the_pairs_and_tell_a_pair_that_went_astray() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        load(&store, &PAIRS).await;
        let (place, pairs) = stored(&store).await;
        let mut sums = vec![0_u64; 1024];
        for (a, b) in &pairs {
            let PairHash { hash, bucket } = pair_hash(a, b);
            sums[bucket] = sums[bucket].wrapping_add(hash);
        }
        assert_eq!(store.bucket_sums().await.unwrap(), BucketSums { place, pairs: 5, sums });
        server.sql("delete from encke.subscriptions where subscriber = 1").unwrap();
        let astray = store.bucket_sums().await.unwrap();
        assert!(!astray.add_up() && astray.place == place);
        // Made right by one, and looked at by another.
        store.mend().await.unwrap();
        store.mend().await.unwrap();
        let mended = store.bucket_sums().await.unwrap();
        assert!(mended.add_up() && mended.sums == astray.sums);
        assert_eq!(mended.place.version, place.version + 1);
        assert_ne!(mended.place.lineage, place.lineage);
        let changed = store.change(vec![("1".into(), "2".into())], Vec::new()).await.unwrap();
        assert_eq!(changed.place.version, place.version + 2);
        assert!(store.bucket_sums().await.unwrap().add_up());
    });
}

#[test]
fn load_of_too_many_pairs_is_refused_and_leaves_the_graph_as_it_was() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let mut load = store.load().bounded(2, 1);
        load.push("1", "2").unwrap();
        load.push("1", "3").unwrap();
        let refused = load.push("1", "4");
        assert!(matches!(refused, Err(PostgresError::Refused(_))), "{refused:?}");
        let refused = load.finish().await;
        assert!(matches!(refused, Err(PostgresError::Refused(_))), "{refused:?}");
        assert_eq!(stored(&store).await.1.len(), 0);
    });
}

/// More pairs than a version takes, than a batch holds, and names in both places.
#[test]
fn many_pairs_go_in_and_come_out() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let id = |n: u64| if n.is_multiple_of(5) { format!("n{n}") } else { n.to_string() };
        for (part, versions) in [(0..70_000, 1), (60_000..150_000, 3)] {
            let mut load = store.load();
            for n in part {
                load.push(&id(n % 1000), &id(n)).unwrap();
            }
            let loaded = load.finish().await.unwrap();
            assert_eq!(loaded.place.version, versions);
        }
        assert_eq!(stored(&store).await.1.len(), 150_000);
        assert_eq!(store.bucket_sums().await.unwrap().pairs, 150_000);
    });
}
