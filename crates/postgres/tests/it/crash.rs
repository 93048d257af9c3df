//! The server is killed, stopped, and restored from an older copy. What was acknowledged is there,
//! what was not is said to be unknown or undone, and a replica that is ahead is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use postgres::{Pair, Place, PostgresError, PostgresStore, Rebuild, SchemaFault, Seen};
use testing::postgres::Postgres;
use testing::wait_for;
use tokio::time::sleep;

use crate::model::Replica;
use crate::support::{DEADLINE, config, connect, pairs, run, server, stored};

/// With the defaults of the server, so that a commit is on disk when it is acknowledged.
fn durable() -> Option<Postgres> {
    Postgres::start(&[])
}

/// Waits until the database is there, or away.
async fn seen(store: &PostgresStore, wanted: impl Fn(&Seen) -> bool) -> Seen {
    let mut versions = store.versions();
    loop {
        let now = versions.next().await.unwrap();
        if wanted(&now) {
            return now;
        }
    }
}

#[test]
fn acknowledged_changes_survive_kill_9_and_versions_have_no_gaps() {
    let Some(mut server) = durable() else { return };
    run(async {
        let store = connect(&server).await;
        let mut replica = Replica::bootstrap(&store).await;
        let mut random = fastrand::Rng::with_seed(testing::seed());
        let (mut asked, mut acknowledged) = (BTreeSet::new(), BTreeSet::new());
        let (mut unknown, done) = (0, Arc::new(AtomicUsize::new(0)));
        for round in 0..120 {
            // A kill may meet nobody between the question and the answer; hardly ever all of them.
            if round >= 6 {
                if unknown > 0 {
                    break;
                }
                testing::tried_again("no kill met a change between its question and its answer");
            }
            let killed = Arc::new(AtomicBool::new(false));
            let writers: Vec<_> = (0..4)
                .map(|n| {
                    let (killed, done) = (killed.clone(), done.clone());
                    write(store.clone(), killed, done, format!("{round}w{n}"))
                })
                .map(tokio::spawn)
                .collect();
            while done.load(Relaxed) < acknowledged.len() + 12 {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(Duration::from_millis(random.u64(0..30))).await;
            server.kill();
            killed.store(true, Relaxed);
            for writer in writers {
                let (tried, kept, error) = writer.await.unwrap();
                asked.extend(tried);
                acknowledged.extend(kept);
                unknown += u32::from(matches!(error, PostgresError::Unknown(_)));
                assert!(
                    matches!(error, PostgresError::Unknown(_) | PostgresError::Away(_)),
                    "{error}"
                );
            }
            seen(&store, |seen| matches!(seen, Seen::Away(_))).await;
            server.run();
            seen(&store, |seen| matches!(seen, Seen::At(_))).await;
            replica.catch_up(&store).await.unwrap();
            let (place, all) = stored(&store).await;
            assert_eq!((place, &all), (replica.place, &replica.sorted()));
            let all: BTreeSet<Pair> = all.into_iter().collect();
            assert!(all.is_superset(&acknowledged), "{:?}", &acknowledged - &all);
            assert!(all.is_subset(&asked));
        }
        assert!(acknowledged.len() > 50 && unknown > 0, "{} {unknown}", acknowledged.len());
    });
}

/// One pair after the other, until that fails: what was asked for, what was acknowledged.
async fn write(
    store: PostgresStore,
    killed: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    name: String,
) -> (Vec<Pair>, Vec<Pair>, PostgresError) {
    let (mut asked, mut done) = (Vec::new(), Vec::new());
    loop {
        let pair = (name.clone(), asked.len().to_string());
        asked.push(pair.clone());
        match store.change(vec![pair.clone()], vec![]).await {
            Ok(_) => {
                done.push(pair);
                count.fetch_add(1, Relaxed);
            }
            // At the start of a round the writer may still be in its pause between two tries.
            Err(PostgresError::Away(_)) if !killed.load(Relaxed) => {
                sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return (asked, done, error),
        }
    }
}

#[test]
fn restored_backup_is_noticed_even_after_it_went_on() {
    let Some(mut server) = durable() else { return };
    run(async {
        let store = connect(&server).await;
        store.change(pairs(&[("1", "1")]), vec![]).await.unwrap();
        server.stop();
        server.save("backup");
        server.run();
        let ahead = change_until(&store, &[("2", "2"), ("3", "3")]).await;
        assert_eq!(ahead.version, 3);
        server.stop();
        server.restore("backup");
        server.run();
        let behind = seen(&store, |seen| matches!(seen, Seen::At(at) if at.version == 1)).await;
        let rebuild = |why| Err(PostgresError::Rebuild(why));
        let changes = store.changes_after(ahead).await;
        assert_eq!(changes, rebuild(Rebuild::Behind { ours: 3, theirs: 1 }), "{behind:?}");
        change_until(&store, &[("4", "4"), ("5", "5")]).await;
        assert_eq!(store.changes_after(ahead).await, rebuild(Rebuild::Diverged { at: 3 }));
        change_until(&store, &[("6", "6")]).await;
        assert_eq!(store.changes_after(ahead).await, rebuild(Rebuild::Diverged { at: 3 }));
        server.sql("delete from encke.changes where version <= 4").unwrap();
        let old = Place { version: 1, ..ahead };
        assert_eq!(store.changes_after(old).await, rebuild(Rebuild::Pruned { ours: 1 }));
        assert_eq!(stored(&store).await.1.len(), 4);
    });
}

/// One pair a version.
async fn change_until(store: &PostgresStore, added: &[(&str, &str)]) -> Place {
    let mut place = None;
    for pair in added {
        place = Some(loop {
            match store.change(pairs(&[*pair]), vec![]).await {
                Ok(changed) => break changed.place,
                Err(PostgresError::Away(_) | PostgresError::Unknown(_)) => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        });
    }
    place.unwrap()
}

#[test]
fn away_is_said_soon_and_nothing_was_changed() {
    let Some(mut server) = durable() else { return };
    run(async {
        // Longer than the whole test may take, so that whoever waited for them would be seen.
        let mut patient = config(&server);
        patient.connect_timeout = 10 * DEADLINE;
        patient.statement_timeout = 10 * DEADLINE;
        let store = PostgresStore::connect(patient).await.unwrap();
        server.stop();
        seen(&store, |seen| matches!(seen, Seen::Away(_))).await;
        let away = store.change(pairs(&[("1", "2")]), vec![]).await;
        assert!(matches!(away, Err(PostgresError::Away(_))), "{away:?}");
        assert!(matches!(store.bootstrap().await, Err(PostgresError::Away(_))));
        // A node may start without its database.
        let early = PostgresStore::start(config(&server));
        let now = early.versions().now();
        assert!(matches!(now, Seen::Starting | Seen::Away(_)), "{now:?}");
        seen(&early, |seen| matches!(seen, Seen::Away(_))).await;
        server.run();
        let Seen::At(place) = seen(&early, |seen| matches!(seen, Seen::At(_))).await else {
            return;
        };
        assert_eq!(place.version, 0);
        assert_eq!(change_until(&early, &[("1", "2")]).await.version, 1);
    });
}

/// A session follows a reload where it has said nothing itself. With a standby that is not there, a
/// commit that is for real waits.
#[test]
fn reload_that_lets_commits_go_unwritten_is_not_followed() {
    let Some(server) = durable() else { return };
    run(async {
        let mut patient = config(&server);
        patient.statement_timeout = 10 * DEADLINE;
        let store = PostgresStore::connect(patient).await.unwrap();
        store.change(pairs(&[("1", "2")]), vec![]).await.unwrap();
        server.sql("alter system set synchronous_standby_names = 'nobody'").unwrap();
        server.sql("alter system set synchronous_commit = off").unwrap();
        server.sql("select pg_reload_conf()").unwrap();
        let settings = "select current_setting('synchronous_commit') || ' ' ||
            current_setting('synchronous_standby_names')";
        wait_for("it is reloaded", || server.sql(settings).unwrap() == "off nobody");
        // Commits wait for a standby once the checkpointer has read that, too. The first of these
        // may have begun before.
        server.sql("checkpoint").unwrap();
        server.sql("checkpoint").unwrap();
        let changing = tokio::spawn({
            let store = store.clone();
            async move { store.change(pairs(&[("3", "4")]), vec![]).await }
        });
        let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
        wait_for("it waits in its commit, or has not waited", || {
            changing.is_finished() || server.sql(waits).unwrap() != "0"
        });
        assert!(!changing.is_finished(), "the commit waited for nobody");
        server.sql("alter system reset synchronous_standby_names").unwrap();
        server.sql("select pg_reload_conf()").unwrap();
        assert_eq!(changing.await.unwrap().unwrap().place.version, 2);
    });
}

/// Someone holds the version's row: the change is refused in time, and the row is not changed
/// later.
#[test]
fn locked_version_is_away_and_others_wait_no_longer_than_told() {
    let Some(server) = durable() else { return };
    run(async {
        let mut config = config(&server);
        config.statement_timeout = Duration::from_millis(600);
        let store = PostgresStore::connect(config).await.unwrap();
        std::thread::scope(|scope| {
            // Until it is ended, which undoes it: far longer than the test may take.
            let holder = scope.spawn(|| {
                server.sql("begin; select encke.change(array[['1', '1']]); select pg_sleep(3600)")
            });
            let held = "select count(*) from pg_locks where mode = 'RowExclusiveLock' and
                relation = 'encke.version'::regclass";
            wait_for("the row is held", || server.sql(held).unwrap() != "0");
            let away = tokio::task::block_in_place(|| {
                let handle = tokio::runtime::Handle::current();
                handle.block_on(store.change(pairs(&[("1", "2")]), vec![]))
            });
            let end = "select pg_terminate_backend(pid) from pg_stat_activity
                where pid <> pg_backend_pid() and query like '%pg_sleep(3600)%'";
            assert_eq!(server.sql(end).unwrap(), "t");
            assert!(holder.join().unwrap().is_err(), "it held the row until it was ended");
            let Err(PostgresError::Away(why)) = away else { panic!("{away:?}") };
            assert!(why.contains("another transaction holds"), "{why}");
        });
        assert_eq!(stored(&store).await.0.version, 0);
        let place = change_until(&store, &[("1", "2")]).await;
        assert_eq!(stored(&store).await.0, place);
    });
}

#[test]
fn changes_come_in_pages_and_none_is_left_out() {
    let Some(server) = durable() else { return };
    run(async {
        let store = connect(&server).await;
        let mut replica = Replica::bootstrap(&store).await;
        let many = "select encke.change(array(select array[n::text, m::text]
            from generate_series(1, 40) m)) from generate_series(1, 700) n";
        server.sql(many).unwrap();
        let mut sizes = BTreeMap::new();
        let mut from = replica.place;
        while let Some(last) = store.changes_after(from).await.unwrap().changes.last() {
            sizes.insert(last.place.version, last.place.version - from.version);
            from = last.place;
        }
        assert_eq!(sizes.into_values().collect::<Vec<_>>(), [256, 256, 188]);
        // Pages of large changes end by their size.
        let large = "select encke.change(array(select array[repeat('é', 120) || n, m::text]
            from generate_series(1, 20000) m)) from generate_series(1, 4) n";
        server.sql(large).unwrap();
        let page = store.changes_after(from).await.unwrap();
        assert_eq!((page.changes.len(), page.head.version), (1, 704));
        replica.catch_up(&store).await.unwrap();
        assert_eq!(stored(&store).await, (replica.place, replica.sorted()));
    });
}

/// A database that is dropped and made anew is one that is being restored, and would be in the way.
#[test]
fn tables_that_are_gone_are_not_made_anew_by_who_had_them() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        store.change(pairs(&[("a", "b")]), vec![]).await.unwrap();
        server.sql("drop schema encke cascade").unwrap();
        server
            .sql(
                "select pg_terminate_backend(pid) from pg_stat_activity
            where backend_type = 'client backend' and pid <> pg_backend_pid()",
            )
            .unwrap();
        let gone = PostgresError::Schema(SchemaFault::Gone);
        seen(&store, |seen| *seen == Seen::Away(gone.clone())).await;
        assert_eq!(server.sql("select to_regnamespace('encke') is null").unwrap(), "t");
        // Nor by a node whose graph is of such tables.
        let mut another = config(&server);
        another.create = false;
        assert_eq!(PostgresStore::connect(another).await.unwrap_err(), gone);
        // Whoever has none makes them.
        connect(&server).await;
        seen(&store, |seen| matches!(seen, Seen::At(_))).await;
    });
}
