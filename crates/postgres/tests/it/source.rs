//! A table of the application as the graph: what its SQL does, the graph does, in one transaction.

use std::collections::BTreeSet;
use std::fmt::Write;

use postgres::{Pair, PostgresError, PostgresStore, Rebuild, Source};
use testing::postgres::Postgres;
use testing::wait_for;

use crate::model::Replica;
use crate::support::{connect, pairs, run, server, stored};

fn source(table: &str) -> Source {
    let [subscriber, subscribee] = ["follower", "followee"].map(str::to_owned);
    Source { table: table.to_owned(), subscriber, subscribee }
}

/// What the table says the graph is.
fn rows(server: &Postgres, table: &str) -> Vec<Pair> {
    let sql = format!(
        "select distinct follower, followee from {table}
         where follower is not null and followee is not null"
    );
    let text = server.sql(&sql).unwrap();
    let pair = |line: &str| line.split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned()));
    let pairs: BTreeSet<Pair> = text.lines().filter_map(pair).collect();
    pairs.into_iter().collect()
}

async fn is_the_table(store: &PostgresStore, server: &Postgres, table: &str, when: &str) {
    assert_eq!(stored(store).await.1, rows(server, table), "{when}");
}

#[test]
fn installed_table_is_the_graph_until_it_is_uninstalled() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let before = stored(&store).await.0;
        server
            .sql(
                "create table follows (
                     follower bigint not null, followee bigint not null, at date,
                     primary key (follower, followee));
                 insert into follows select n % 100, n / 100 + 50 from generate_series(0, 4999) n",
            )
            .unwrap();
        let place = store.install(&source("follows")).await.unwrap();
        is_the_table(&store, &server, "follows", "imported").await;
        let behind = store.changes_after(before).await;
        assert_eq!(behind, Err(PostgresError::Rebuild(Rebuild::LineageChanged)));
        assert_eq!(store.install(&source("follows")).await.unwrap(), place, "installed again");

        let mut replica = Replica::bootstrap(&store).await;
        for sql in [
            "insert into follows values (-5, 7), (1, 1000)",
            "update follows set at = now()",
            "update follows set followee = followee + 1000",
            "delete from follows where follower < 20",
            "insert into follows values (1, 1) on conflict do nothing",
            "copy follows from program 'printf \"7\\t7\\t2026-01-01\\n\"'",
            "begin; delete from follows where follower = 30; rollback",
            "begin; insert into follows values (5000, 1); savepoint a; delete from follows;
             rollback to a; insert into follows values (5001, 1); commit",
            "begin; insert into follows values (6000, 1); set constraints all immediate;
             delete from follows where follower = 6000;
             insert into follows values (6001, 1); commit",
            "begin; truncate follows; insert into follows values (1, 2), (3, 4); commit",
            "alter table follows rename follower to f; alter table follows rename to f2",
            "insert into f2 values (8, 9)",
            "alter table f2 rename f to follower; alter table f2 rename to follows",
            "with gone as (delete from follows returning *) insert into follows
             select follower + 10, followee from gone",
        ] {
            server.sql(sql).unwrap();
            if sql.starts_with("alter") {
                continue;
            }
            let renamed = sql.contains("f2");
            replica.catch_up(&store).await.unwrap();
            assert_eq!(stored(&store).await, (replica.place, replica.sorted()), "{sql}");
            if !renamed {
                is_the_table(&store, &server, "follows", sql).await;
            }
        }
        assert_eq!(server.sql("select count(*) from encke.touched, encke.unsettled").unwrap(), "0");

        let refused = store.change(pairs(&[("1", "1")]), vec![]).await;
        let Err(PostgresError::Refused(why)) = refused else { panic!("{refused:?}") };
        assert_eq!(why, "the graph is the table public.follows: change its rows instead");
        assert!(server.sql("select encke.change(array[['1', '1']])").is_err());

        let status = store.status().await.unwrap();
        assert_eq!(status.source, Some(source("public.follows")));
        assert!(store.uninstall().await.unwrap());
        assert!(!store.uninstall().await.unwrap());
        server.sql("delete from follows").unwrap();
        assert_eq!(stored(&store).await, (replica.place, replica.sorted()));
        let triggers = "select count(*) from pg_trigger where tgrelid = 'follows'::regclass";
        assert_eq!(server.sql(triggers).unwrap(), "0");
        store.change(pairs(&[("1", "1")]), vec![]).await.unwrap();
        // The table is empty now, and the graph is what it says.
        store.install(&source("follows")).await.unwrap();
        assert_eq!(stored(&store).await.1, []);
        assert_eq!(store.status().await.unwrap().schema_version, 6);
    });
}

#[test]
fn rows_with_one_pair_are_one_subscription_until_the_last_goes() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        server
            .sql(
                "create table follows (id serial primary key, follower text, followee uuid);
                 create index on follows (followee, follower);
                 insert into follows (follower, followee) values
                     ('o''r\\', '00000000-0000-0000-0000-00000000000A'),
                     ('o''r\\', '00000000-0000-0000-0000-00000000000a'), ('007', gen_random_uuid()),
                     ('7', gen_random_uuid()), (null, gen_random_uuid()), ('x', null)",
            )
            .unwrap();
        store.install(&source("follows")).await.unwrap();
        is_the_table(&store, &server, "follows", "imported").await;
        assert_eq!(stored(&store).await.1.len(), 3);
        for (sql, count) in [
            ("delete from follows where id = 1", 3),
            ("insert into follows (follower, followee) select follower, followee from follows", 3),
            ("update follows set follower = null where id = 2", 3),
            ("delete from follows where follower = 'o''r\\'", 2),
        ] {
            server.sql(sql).unwrap();
            is_the_table(&store, &server, "follows", sql).await;
            assert_eq!(stored(&store).await.1.len(), count, "{sql}");
        }
        let error = server
            .sql("insert into follows (follower, followee) values ('a b', gen_random_uuid())");
        assert!(error.unwrap_err().contains("'a b' is not an id"));
        is_the_table(&store, &server, "follows", "refused").await;
    });
}

/// Two transactions take away the two rows of one pair at the same time; each still sees the
/// other's row until it waits for it.
#[test]
fn last_two_rows_of_a_pair_go_in_two_transactions_at_once() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        server
            .sql(
                "create table follows (id serial primary key, follower int, followee int);
                 create index on follows (follower, followee);
                 insert into follows (follower, followee) select 1, 2 from generate_series(1, 40)",
            )
            .unwrap();
        store.install(&source("follows")).await.unwrap();
        std::thread::scope(|scope| {
            for n in 1..=40 {
                let server = &server;
                scope.spawn(move || {
                    let sql = format!(
                        "begin; delete from follows where id = {n}; select pg_sleep(0.2); commit"
                    );
                    server.sql(&sql).unwrap();
                });
            }
        });
        assert_eq!(stored(&store).await.1, []);
    });
}

/// A transaction that still sees the other row of the pair, though it is gone, must not commit.
#[test]
fn last_row_of_a_pair_goes_in_a_transaction_that_sees_an_older_state() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        server
            .sql(
                "create table follows (id serial primary key, follower int, followee int);
                 create index on follows (follower, followee);
                 insert into follows (follower, followee) values (1, 2), (1, 2)",
            )
            .unwrap();
        store.install(&source("follows")).await.unwrap();
        std::thread::scope(|scope| {
            let older = scope.spawn(|| {
                // It goes on when it is woken, however long that takes.
                server.sql(
                    "begin isolation level repeatable read; select count(*) from follows;
                     do $$ begin perform pg_sleep(3600);
                     exception when query_canceled then null; end $$;
                     delete from follows where id = 1; commit",
                )
            });
            let asleep = "from pg_stat_activity where wait_event = 'PgSleep'";
            let count = format!("select count(*) {asleep}");
            wait_for("it has seen both rows", || server.sql(&count).unwrap() != "0");
            server.sql("delete from follows where id = 2").unwrap();
            assert_eq!(
                server.sql(&format!("select pg_cancel_backend(pid) {asleep}")).unwrap(),
                "t"
            );
            let refused = older.join().unwrap().unwrap_err();
            assert!(refused.contains("could not serialize access"), "{refused}");
        });
        is_the_table(&store, &server, "follows", "at the end").await;
        server.sql("delete from follows").unwrap();
        assert_eq!(stored(&store).await.1, []);
    });
}

#[test]
fn what_cannot_be_the_graph_is_refused_and_nothing_is_left() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        server
            .sql(
                "create table follows (follower int, followee int);
                 create table bad (follower int, followee text, primary key (follower, followee));
                 insert into bad values (1, 'a b');
                 create table kinds (follower int, followee jsonb);
                 create table parts (follower int, followee int, primary key (follower, followee))
                     partition by hash (follower);
                 create view v as select * from follows;
                 create table good (follower int, followee int, primary key (follower, followee))",
            )
            .unwrap();
        for (table, why) in [
            ("nowhere", "there is no table nowhere"),
            ("my follows", "there is no table my follows"),
            ("a.b.c", "there is no table a.b.c"),
            ("follows", "no index that begins with its two columns"),
            ("bad", "'a b' is not an id"),
            ("kinds", "the columns must be"),
            ("parts", "not a plain table"),
            ("v", "v"),
        ] {
            let refused = store.install(&source(table)).await.unwrap_err();
            assert!(refused.to_string().contains(why), "{table}: {refused}");
        }
        let other = Source { subscriber: "who".into(), ..source("good") };
        let refused = store.install(&other).await.unwrap_err();
        assert_eq!(refused, PostgresError::Refused("public.good has no column who".into()));
        assert_eq!(
            server.sql("select count(*) from pg_trigger where tgname ~ '^encke'").unwrap(),
            "0"
        );
        store.change(pairs(&[("1", "2")]), vec![]).await.unwrap();
        store.install(&source("good")).await.unwrap();
        server.sql("create unique index on follows (follower, followee)").unwrap();
        let second = store.install(&source("follows")).await.unwrap_err();
        assert!(second.to_string().contains("the table public.good already"), "{second}");
        // Who drops the table takes its triggers with it, and the graph can be another's.
        server.sql("drop table good").unwrap();
        store.install(&source("follows")).await.unwrap();
    });
}

/// Random statements in random transactions by several clients; what the table says at the end, and
/// at each moment when all wait, the graph says.
#[test]
fn random_sql_leaves_graph_and_table_the_same() {
    let Some(server) = server() else { return };
    run(async {
        let seed = testing::seed();
        let store = connect(&server).await;
        server
            .sql(
                "create table follows (follower text, followee int, kind int,
                     primary key (follower, followee, kind))",
            )
            .unwrap();
        store.install(&source("follows")).await.unwrap();
        let mut replica = Replica::bootstrap(&store).await;
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..12 {
            let scripts: Vec<String> = (0..3).map(|_| script(&mut random)).collect();
            std::thread::scope(|scope| {
                for script in &scripts {
                    // Deadlocks between the table's own rows, and doubles, roll back.
                    scope.spawn(|| server.sql(script));
                }
            });
            replica.catch_up(&store).await.unwrap();
            let when = format!("seed {seed}, round {round}: {scripts:?}");
            assert_eq!(stored(&store).await, (replica.place, replica.sorted()), "{when}");
            is_the_table(&store, &server, "follows", &when).await;
        }
    });
}

fn script(random: &mut fastrand::Rng) -> String {
    let mut sql = String::new();
    for _ in 0..random.u32(1..6) {
        sql.push_str("begin; ");
        for _ in 0..random.u32(1..4) {
            let (a, b, kind) = (random.u32(0..6), random.u32(0..6), random.u32(0..3));
            let savepoint = random.u32(0..5) == 0;
            let statement = match random.u32(0..12) {
                0..6 => format!(
                    "insert into follows select 'n' || g, {b}, {kind}
                     from generate_series({a}, {b}) g
                     on conflict do nothing"
                ),
                6..8 => format!("delete from follows where followee = {b} or kind = {kind}"),
                8..10 => format!("update follows set kind = kind + 3 where followee = {b}"),
                10 => format!(
                    "update follows set followee = followee + 10 where follower = 'n{a}'
                     and followee < 10"
                ),
                _ => "truncate follows".to_owned(),
            };
            let _ = if savepoint {
                write!(sql, "savepoint s; {statement}; rollback to s; ")
            } else {
                write!(sql, "{statement}; ")
            };
        }
        sql.push_str(if random.u32(0..4) == 0 { "rollback; " } else { "commit; " });
    }
    sql
}
