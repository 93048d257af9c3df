//! Few pairs at a time, as most changes are: what they read, and what becomes of those whose
//! transaction a migration finds under way.

use std::sync::Arc;
use std::time::Duration;

use postgres::{PostgresConfig, PostgresError, PostgresStore, SchemaFault};
use testing::postgres::Postgres;
use testing::{DEADLINE, wait_for};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::model::Replica;
use crate::support::{TABLE, config, connect, follows, pairs, run, same, server, stored};

/// The migrations before the one that notes few pairs apart from many.
const BEFORE: [&str; 3] = [
    include_str!("../../src/sql/1.sql"),
    include_str!("../../src/sql/2.sql"),
    include_str!("../../src/sql/3.sql"),
];

/// Makes the tables as programs of schema 3 did, and `follows` the graph.
fn install_before(server: &Postgres) {
    let mut sql = String::from(
        "create schema encke;
         create table encke.migrations (
             version integer primary key, at timestamptz not null default now());
         insert into encke.migrations (version) values (1), (2), (-3);",
    );
    BEFORE.into_iter().for_each(|migration| sql.push_str(migration));
    sql.push_str(TABLE);
    sql.push_str("; select encke.install('follows', 'a', 'b')");
    server.sql(&sql).unwrap();
}

#[test]
fn note_of_a_transaction_is_found_without_reading_those_of_others() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        let scans = "select coalesce(sum(seq_scan), 0) from pg_stat_xact_user_tables
            where relid in ('encke.unsettled'::regclass, 'encke.touched'::regclass)";
        for sql in [
            "insert into follows values (1, 2)",
            "update follows set b = 3 where a = 1",
            "insert into follows values (1, 4), (1, 5); insert into follows values (1, 6)",
            "delete from follows where b > 4",
        ] {
            let sql = format!("begin; {sql}; set constraints all immediate; {scans}; commit");
            assert_eq!(server.sql(&sql).unwrap(), "0", "{sql}");
            same(&store, &sql).await;
        }
        assert_eq!(stored(&store).await.1, pairs(&[("1", "3"), ("1", "4")]));
    });
}

#[test]
fn few_and_many_pairs_of_one_transaction_are_one_version() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        let mut replica = Replica::bootstrap(&store).await;
        let singles = |from: i32, to: i32| {
            let single = |n| format!("insert into follows values ({n}, 1);");
            (from..to).map(single).collect::<String>()
        };
        let series = |from: i32, to: i32| {
            format!("insert into follows select n, 1 from generate_series({from}, {to} - 1) n;")
        };
        for sql in [
            series(0, 16),
            series(100, 117),
            singles(200, 216),
            singles(300, 317),
            format!("{}{}", singles(400, 403), series(500, 600)),
            format!("{} delete from follows where a = 600;", singles(600, 602)),
            "update follows set at = now(), b = b + (a < 2)::int".to_owned(),
            "update follows set at = now()".to_owned(),
            "insert into follows select n, n from generate_series(700, 720) n;
             delete from follows where a between 700 and 719"
                .to_owned(),
            "truncate follows; insert into follows values (1, 1)".to_owned(),
        ] {
            let before = stored(&store).await.0.version;
            server.sql(&format!("begin; {sql}; commit")).unwrap();
            let is_change = !sql.ends_with("at = now()");
            assert_eq!(stored(&store).await.0.version, before + u64::from(is_change), "{sql}");
            replica.catch_up(&store).await.unwrap();
            assert_eq!(stored(&store).await, (replica.place, replica.sorted()), "{sql}");
            same(&store, &sql).await;
        }
    });
}

#[test]
fn rows_that_a_deferred_trigger_writes_at_the_commit_are_in_the_graph() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        server
            .sql(
                "create table users (id bigint);
                 create function welcome() returns trigger language plpgsql as $$ begin
                     insert into follows values (new.id, 0);
                     return null;
                 end $$;
                 create constraint trigger welcome after insert on users
                     deferrable initially deferred for each row execute function welcome()",
            )
            .unwrap();
        // Its note comes between the first, which settles both that are there, and the second.
        server
            .sql(
                "begin; insert into follows values (1, 2); insert into users values (7);
                 insert into follows values (3, 4); commit",
            )
            .unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2"), ("3", "4"), ("7", "0")]));
    });
}

/// A transaction of the application that has changed a row, and sleeps until it is woken.
const UNDER_WAY: &str = "begin; insert into follows values (1, 2);
    do $$ begin perform pg_sleep(3600);
    exception when query_canceled then null; end $$;
    insert into follows values (3, 4); commit";

/// Which backend that is.
const ASLEEP: &str = "from pg_stat_activity where wait_event = 'PgSleep'";

/// Whether the application's tables are waited for by a migration.
const MIGRATION_WAITS: &str = "select count(*) from pg_locks where not granted
    and relation = 'encke.unsettled'::regclass and mode = 'AccessExclusiveLock'";

/// Begins a transaction that stays under way until [`wake`].
fn begin_to_sleep(server: &Arc<Postgres>) -> JoinHandle<Result<String, String>> {
    let writer = Arc::clone(server);
    let under_way = spawn_blocking(move || writer.sql(UNDER_WAY));
    let count = format!("select count(*) {ASLEEP}");
    wait_for("it has written a row", || server.sql(&count).unwrap() != "0");
    under_way
}

fn wake(server: &Postgres) {
    server.sql(&format!("select pg_cancel_backend(pid) {ASLEEP}")).unwrap();
}

#[test]
fn transaction_that_a_migration_finds_under_way_is_in_the_graph() {
    let Some(server) = server() else { return };
    run(async {
        install_before(&server);
        let mut may_not = config(&server);
        may_not.migrate = false;
        let older = PostgresStore::connect(may_not).await.unwrap_err();
        assert_eq!(older, PostgresError::Schema(SchemaFault::Older { found: 3, known: 6 }));

        let server = Arc::new(server);
        let (url, under_way) = (server.url(), begin_to_sleep(&server));
        // One that would not wait for long says for whom, and holds up nobody behind it.
        let mut impatient = config(&server);
        impatient.migration_wait = Duration::from_millis(50);
        let held_up = PostgresStore::connect(impatient).await.unwrap_err();
        assert!(matches!(&held_up, PostgresError::Away(why) if why.contains("not migrated")));
        assert!(held_up.to_string().contains("pg_stat_activity"), "{held_up}");
        let migrating = tokio::spawn(async move {
            PostgresStore::connect(PostgresConfig::from_url(&url).unwrap()).await
        });
        wait_for("the migration waits", || server.sql(MIGRATION_WAITS).unwrap() == "1");
        // Nodes of before start meanwhile: what they read for that is not locked.
        let newest = "select max(abs(version)) from encke.migrations";
        let found = server.sql(&format!("set lock_timeout = '2s'; {newest}"));
        wake(&server);
        under_way.await.unwrap().unwrap();
        assert_eq!(found.as_deref(), Ok("3"));
        let store = migrating.await.unwrap().unwrap();
        same(&store, "migrated").await;
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2"), ("3", "4")]));

        // What a trigger of before noted, whose last statement came behind the migration.
        server
            .sql(
                "alter table follows disable trigger all; insert into follows values (5, 6);
                 alter table follows enable trigger all;
                 begin; insert into encke.touched values ('5', '6');
                 insert into encke.unsettled (whole) values (false);
                 insert into follows values (7, 8); commit",
            )
            .unwrap();
        same(&store, "with an older note").await;
        assert_eq!(server.sql("select count(*) from encke.touched, encke.unsettled").unwrap(), "0");
        // A program of schema 3 looks here, and finds what it knows.
        assert_eq!(server.sql(newest).unwrap(), "3");
        assert_eq!(store.status().await.unwrap().schema_version, 6);
    });
}

/// It gives up its place in the queue for the table after a short time, and takes it again.
#[test]
fn transactions_behind_a_migration_that_waits_pass_before_it_has_its_lock() {
    let Some(server) = server() else { return };
    run(async {
        install_before(&server);
        let server = Arc::new(server);
        let under_way = begin_to_sleep(&server);
        let mut patient = config(&server);
        (patient.table_wait, patient.migration_wait) = (Duration::from_millis(300), 2 * DEADLINE);
        let migrating = tokio::spawn(PostgresStore::connect(patient));
        for number in [5, 7] {
            wait_for("the migration waits", || server.sql(MIGRATION_WAITS).unwrap() == "1");
            let application = Arc::clone(&server);
            let insert = format!("insert into follows values ({number}, 6)");
            let passes = spawn_blocking(move || application.sql(&insert));
            timeout(DEADLINE, passes).await.expect("it passes").unwrap().unwrap();
        }
        assert!(!migrating.is_finished(), "the first one has not ended");
        // Whose turn it is stays the same, so that nobody else waits for the table in a pause.
        let turn = "select count(*) from pg_locks where locktype = 'advisory' and granted";
        assert_eq!(server.sql(turn).unwrap(), "1");
        wake(&server);
        under_way.await.unwrap().unwrap();
        let store = migrating.await.unwrap().unwrap();
        same(&store, "migrated").await;
        let all = pairs(&[("1", "2"), ("3", "4"), ("5", "6"), ("7", "6")]);
        assert_eq!(stored(&store).await.1, all);
        assert_eq!(server.sql(turn).unwrap(), "0", "the turn has ended, and the session goes on");
    });
}
