//! What a transaction noted of the table that is the graph, when it commits: what it costs, and
//! what is still true of it.

use crate::support::{TABLE, connect, follows, pairs, run, same, server, stored};

/// A thousand single inserts, as an application's import makes them, which then settle at once.
#[test]
fn settling_reads_each_note_a_few_times_however_many_a_transaction_has() {
    const ROWS: u64 = 1000;
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        let read = "select pg_stat_get_xact_tuples_returned(
            'encke.unsettled_by_transaction'::regclass)";
        let insert = |n| format!("insert into follows values ({n}, 1);");
        let singles: String = (0..ROWS).map(insert).collect();
        for (when, sql) in [
            ("at the end", format!("begin; {singles} set constraints all immediate; {read}")),
            ("after each", format!("begin; set constraints all immediate; {singles} {read}")),
        ] {
            let notes: u64 = server.sql(&format!("{sql}; rollback")).unwrap().parse().unwrap();
            assert!((ROWS..10 * ROWS).contains(&notes), "{notes} notes were read, {when}");
        }
        server.sql(&format!("begin; {singles} commit")).unwrap();
        same(&store, "committed").await;
        assert_eq!(stored(&store).await.1.len() as u64, ROWS);
    });
}

/// The first to be settled is not the first that was noted.
#[test]
fn note_within_another_trigger_leaves_the_earlier_one_to_settle() {
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
                     deferrable initially deferred for each row execute function welcome();
                 begin; insert into users values (7); insert into follows values (1, 2);
                 set constraints all immediate; commit",
            )
            .unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2"), ("7", "0")]));
    });
}

/// It has inserted them, and they are not there any more: the note that says so was settled first.
#[test]
fn rows_that_a_trigger_deletes_before_their_note_settles_are_not_in_the_graph() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        server
            .sql(
                "create table gone (id bigint);
                 create function bye() returns trigger language plpgsql as $$ begin
                     delete from follows where a = new.id;
                     return null;
                 end $$;
                 create constraint trigger bye after insert on gone
                     deferrable initially deferred for each row execute function bye();
                 begin; insert into gone values (7); insert into follows values (7, 1);
                 set constraints all immediate; commit",
            )
            .unwrap();
        assert_eq!(stored(&store).await.1, []);
    });
}

#[test]
fn one_note_of_a_transaction_fires_also_where_savepoints_take_some_back() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        let calls = |function: &str| {
            format!(
                "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions
                 where funcname = '{function}'"
            )
        };
        let (settled, columns) = (calls("source_settled"), calls("source_columns_within"));
        for (sql, expected) in [
            ("insert into follows values (1, 1); delete from follows where a = 1", "1"),
            ("insert into follows values (2, 1)", "1"),
            ("insert into follows values (2, 2); insert into follows values (2, 3)", "1"),
            ("update follows set b = 4 where b = 3; update follows set at = now()", "1"),
            (
                "savepoint s; delete from follows; rollback to s; delete from follows where b = 2",
                "1",
            ),
            (
                "delete from follows where b = 4; savepoint s; delete from follows; rollback to s",
                "1",
            ),
            ("update follows set at = now()", "0"),
            (
                "insert into follows values (5, 1); set constraints all immediate; savepoint s;
              delete from follows where a = 5; rollback to s",
                "2",
            ),
            (
                "insert into follows values (6, 1); savepoint s; set constraints all immediate;
              rollback to s; delete from follows where a = 5",
                "2",
            ),
        ] {
            // What is rolled back is in these figures too.
            let sql = format!(
                "set track_functions = 'all'; begin; {sql}; set constraints all immediate;
                 {settled}; {columns}; commit"
            );
            let said = server.sql(&sql).unwrap();
            same(&store, &sql).await;
            assert_eq!(said, format!("{expected}\n0"), "{sql}");
        }
        assert_eq!(stored(&store).await.1, pairs(&[("2", "1"), ("6", "1")]));
    });
}

/// Its functions name the table and its columns.
#[test]
fn table_whose_names_or_types_change_is_still_the_graph() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        for sql in [
            "begin; insert into follows values (1, 2); alter table follows rename a to c;
             alter table follows rename b to a; alter table follows rename c to b;
             insert into follows values (3, 4); commit",
            "insert into follows values (5, 6)",
            "update follows set a = 7 where b = 5",
            "delete from follows where b = 1",
            "insert into follows select n, n from generate_series(10, 40) n",
            "alter table follows rename to friends; create table follows (a int, b int)",
            "insert into friends values (8, 9); insert into follows values (10, 11)",
            "delete from friends where b = 8",
            "drop table follows; alter table friends rename to follows;
             alter table follows rename a to c; alter table follows rename b to a;
             alter table follows rename c to b",
            "alter table follows drop column at, alter a type text, alter b type integer",
            "insert into follows values ('bob', 1); delete from follows where a = '3'",
            "update follows set a = 'rj' where a = '40'",
            "begin; delete from follows where a = 'bob'; insert into follows values ('bob', 2);
             commit",
            "begin; delete from follows where a < '2'; drop table follows; commit",
        ] {
            server.sql(sql).unwrap();
            if !sql.contains("begin; delete from follows where a <") {
                same(&store, sql).await;
            }
        }
        assert_eq!(stored(&store).await.1.len(), 33);
    });
}

#[test]
fn note_of_before_an_install_changes_nothing_behind_it() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&follows()).await.unwrap();
        server.sql("create table other (a text, b bigint, primary key (a, b))").unwrap();
        let many = "insert into follows select n, n from generate_series(100, 200) n";
        for (before, between, install) in [
            ("insert into follows values (1, 2)", "", "'other', 'a', 'b'"),
            ("insert into other values ('x', 1)", "", "'follows', 'a', 'b'"),
            ("insert into follows values (3, 4)", "", "'follows', 'b', 'a'"),
            ("insert into follows values (5, 6)", "delete from follows", "'follows', 'a', 'b'"),
            (many, "delete from follows", "'follows', 'a', 'b'"),
        ] {
            let sql = format!(
                "begin; {before}; select encke.uninstall(); {between};
                 select encke.install({install}); commit"
            );
            server.sql(&sql).unwrap();
            same(&store, &sql).await;
        }
        assert_eq!(server.sql("select count(*) from encke.touched, encke.unsettled").unwrap(), "0");
    });
}

/// Whether it has to look a pair up or not: else an application would work until it has two rows.
#[test]
fn forced_row_level_security_fails_each_transaction_that_changes_the_table() {
    let Some(server) = server() else { return };
    run(async {
        server
            .sql(
                "create role owner login; create schema encke authorization owner;
                 create role app login; alter database postgres owner to owner",
            )
            .unwrap();
        let url = server.url().replace("//postgres@", "//owner@");
        let config = postgres::PostgresConfig::from_url(&url).unwrap();
        let store = postgres::PostgresStore::connect(config).await.unwrap();
        let table = format!(
            "grant create on schema public to owner; set role owner; {TABLE};
             grant all on follows to app; alter table follows enable row level security;
             create policy few on follows using (a < 100)"
        );
        server.sql(&table).unwrap();
        store.install(&follows()).await.unwrap();
        let as_app = |sql: &str| server.sql(&format!("set role app; {sql}"));
        // The owner is not under it yet, and sees all rows.
        as_app("insert into follows values (1, 2), (3, 4)").unwrap();
        server.sql("alter table follows force row level security").unwrap();
        for sql in [
            "insert into follows values (5, 6)",
            "begin; insert into follows values (5, 6); insert into follows values (7, 8); commit",
            "insert into follows select n, n from generate_series(1, 17) n",
            "update follows set b = 5",
            "delete from follows where a = 1",
        ] {
            let refused = as_app(sql).unwrap_err();
            assert!(refused.contains("row-level security may hide rows"), "{sql}: {refused}");
        }
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2"), ("3", "4")]));
        // The owner can grant itself nothing that helps.
        let refused = store.install(&follows()).await.unwrap_err().to_string();
        assert!(refused.contains("NO FORCE ROW LEVEL SECURITY"), "{refused}");
        assert!(!refused.contains("grant it to this user"), "{refused}");
        server.sql("alter role owner bypassrls").unwrap();
        as_app("insert into follows values (5, 6)").unwrap();
        same(&store, "with bypassrls").await;
    });
}

/// As a column gets a wider type without a lock for long: another one is filled, and takes its
/// name.
#[test]
fn column_that_was_replaced_goes_on_and_one_that_is_gone_is_told() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        server.sql("insert into follows values (1, 2), (3, 4)").unwrap();
        store.install(&follows()).await.unwrap();
        let replace = "alter table follows add column b2 bigint; update follows set b2 = b;
            alter table follows drop column b; alter table follows rename column b2 to b";
        server.sql(replace).unwrap();
        server.sql("insert into follows values (5, null, 6)").unwrap();
        server.sql("delete from follows where a = 1").unwrap();
        let many = "insert into follows (a, b) select n, n from generate_series(100, 150) n";
        server.sql(many).unwrap();
        same(&store, "replaced").await;
        server.sql("alter table follows drop column b").unwrap();
        let refused = server.sql("insert into follows (a) values (9)").unwrap_err();
        assert!(refused.contains("encke postgres install"), "{refused}");
        let status = store.status().await.unwrap();
        assert!(status.source_lost.unwrap().contains("has lost a column"));
        assert!(store.uninstall().await.unwrap());
        server.sql("insert into follows (a) values (9)").unwrap();
    });
}
