//! A table of the application is the graph over a dump and a restore, and whatever its columns are
//! called.

use postgres::{PostgresConfig, PostgresStore, Source};
use testing::postgres::sql_at;

use crate::support::{connect, pairs, run, server, stored};

/// Columns that a later one has pushed to other numbers.
const TABLE: &str = "
    create table follows (gone int, follower text not null, at date, followee text not null);
    alter table follows drop column gone;
    create index on follows (followee, follower);
    insert into follows values ('ann', null, 'bob')";

fn source() -> Source {
    let [table, subscriber, subscribee] = ["follows", "follower", "followee"].map(str::to_owned);
    Source { table, subscriber, subscribee }
}

#[test]
fn table_is_the_graph_still_after_a_dump_and_a_restore() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        connect(&server).await.install(&source()).await.unwrap();
        // Tables have other numbers there, and columns too, since none is missing.
        let url = server.dump_into("restored");
        let restored =
            PostgresStore::connect(PostgresConfig::from_url(&url).unwrap()).await.unwrap();
        let expected = Source { table: "public.follows".into(), ..source() };
        let told = restored.status().await.unwrap().source.unwrap();
        assert!(told == expected || told == source(), "{told:?}");
        sql_at(&url, "insert into follows values ('ann', null, 'eve')").unwrap();
        sql_at(&url, "delete from follows where followee = 'bob'").unwrap();
        assert_eq!(stored(&restored).await.1, pairs(&[("ann", "eve")]));
        let refused = restored.change(pairs(&[("1", "1")]), vec![]).await;
        assert!(refused.is_err(), "{refused:?}");
        // From here on its columns keep their numbers again.
        restored.install(&source()).await.unwrap();
        sql_at(&url, "alter table follows rename follower to who").unwrap();
        sql_at(&url, "insert into follows values ('bob', null, 'eve')").unwrap();
        assert_eq!(stored(&restored).await.1, pairs(&[("ann", "eve"), ("bob", "eve")]));
    });
}

#[test]
fn column_whose_name_another_one_gets_is_read_still() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        let store = connect(&server).await;
        store.install(&source()).await.unwrap();
        server
            .sql(
                "alter table follows rename follower to who;
                 alter table follows add column follower text default 'nobody';
                 insert into follows values ('ann', null, 'eve')",
            )
            .unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("ann", "bob"), ("ann", "eve")]));
    });
}
