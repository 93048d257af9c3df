//! Files of pairs, and the daily check.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hub::{PairHash, pair_hash};
use postgres::{BucketSums, Pair, PostgresConfig, PostgresError, PostgresStore, Rebuild};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::interval;

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

#[test]
fn names_that_come_slowly_are_read_to_their_end_and_silence_is_told() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let name = |n: usize| format!("{n:0200}x");
        let all: Vec<Pair> = (0..1_000).map(|n| (name(n), name(n + 1))).collect();
        store.change(all.clone(), vec![]).await.unwrap();
        let stalls = Arc::new(AtomicBool::new(false));
        let proxy = slow_proxy(server.port(), Arc::clone(&stalls)).await;
        let url = format!("postgresql://postgres@127.0.0.1:{proxy}/postgres?sslmode=disable");
        let of = |seconds| {
            let mut config = PostgresConfig::from_url(&url).unwrap();
            config.silence = Duration::from_secs(seconds);
            PostgresStore::connect(config)
        };
        // 200 KB of names take some three seconds.
        assert_eq!(stored(&of(20).await.unwrap()).await.1.len(), all.len());
        let slow = of(1).await.unwrap();
        stalls.store(true, Relaxed);
        let error = slow.bootstrap().await.unwrap_err();
        assert!(error.to_string().contains("said nothing for 1 s"), "{error}");
    });
}

/// A port through which the server's answers come slowly, or stop once 100 KB of a connection have.
async fn slow_proxy(server: u16, stalls: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut ask, mut answer) = client.into_split();
            let (mut read, mut write) =
                TcpStream::connect(("127.0.0.1", server)).await.unwrap().into_split();
            let stalls = Arc::clone(&stalls);
            tokio::spawn(async move { tokio::io::copy(&mut ask, &mut write).await });
            tokio::spawn(async move {
                let (mut bytes, mut passed) = ([0; 4096], 0);
                let mut pace = interval(Duration::from_millis(40));
                while let Ok(length @ 1..) = read.read(&mut bytes).await {
                    passed += length;
                    if passed > 100_000 && stalls.load(Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    pace.tick().await;
                    answer.write_all(&bytes[..length]).await?;
                }
                Ok::<_, std::io::Error>(())
            });
        }
    });
    port
}
