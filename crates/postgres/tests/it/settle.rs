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
        server.sql("alter role owner bypassrls").unwrap();
        as_app("insert into follows values (5, 6)").unwrap();
        same(&store, "with bypassrls").await;
    });
}
