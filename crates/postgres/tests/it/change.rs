//! Changes by nodes: what they do, what they answer, who shares a version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postgres::{Pair, PostgresError, PostgresStore, Seen};
use testing::postgres::Postgres;

use crate::model::Replica;
use crate::support::{config, connect, pairs, run, server, stored};

#[test]
fn change_says_what_it_changed_and_where_the_graph_is() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let (empty, none) = stored(&store).await;
        assert_eq!((empty.version, empty.hash, none.len()), (0, 0, 0));
        let mut commits = store.commits();

        // What looks like a number and is none, and what must be quoted in many a place.
        let odd = pairs(&[
            ("7", "rj"),
            ("007", "7"),
            ("-7", "9223372036854775807"),
            ("9223372036854775808", "o'r\"j\\n%_é{},:;$1"),
            ("0", "0"),
        ]);
        let done = store.change(odd.clone(), vec![]).await.unwrap();
        assert_eq!((done.place.version, &done.added), (1, &odd));
        assert_eq!(stored(&store).await, (done.place, sorted(odd.clone())));
        let told = commits.next().await.unwrap();
        assert_eq!(told.place, done.place);
        assert_eq!(sorted(told.added.clone()), sorted(odd.clone()));

        let again = store.change(odd.clone(), pairs(&[("8", "8")])).await.unwrap();
        assert_eq!((again.place, again.added.len(), again.removed.len()), (done.place, 0, 0));

        let both = store.change(pairs(&[("1", "2")]), pairs(&[("007", "7"), ("1", "2")])).await;
        let both = both.unwrap();
        assert_eq!(both.place.version, 2);
        assert_eq!((both.added, both.removed), (pairs(&[("1", "2")]), pairs(&[("007", "7")])));

        let all = stored(&store).await.1;
        let gone = store.change(vec![], all.clone()).await.unwrap();
        assert_eq!((gone.removed, gone.place.hash), (all, 0));
        assert_eq!(stored(&store).await.1, []);
    });
}

#[test]
fn bad_pairs_are_refused_and_fail_nobody_else() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        for bad in ["", "a b", "a\tb", "x/y", "a\0"] {
            let refused = store.change(pairs(&[("1", bad)]), vec![]).await;
            assert!(matches!(refused, Err(PostgresError::Refused(_))), "{refused:?}");
        }
        let many = vec![("1".to_owned(), "2".to_owned()); 65_537];
        assert!(matches!(store.change(many, vec![]).await, Err(PostgresError::Refused(_))));
        let (place, stored) = stored(&store).await;
        assert_eq!((place.version, stored), (0, vec![]));
    });
}

/// Each works on pairs of its own, so the model says what each answer must be; a replica that
/// follows by changes has the same at the end.
#[test]
fn ten_writers_on_two_nodes_share_versions_without_gaps() {
    let Some(server) = server() else { return };
    run(async {
        let nodes = [Arc::new(connect(&server).await), Arc::new(connect(&server).await)];
        let mut replica = Replica::bootstrap(&nodes[0]).await;
        let writers: Vec<_> = (0..10_u64)
            .map(|writer| tokio::spawn(write(nodes[writer as usize % 2].clone(), writer)))
            .collect();
        let (mut expected, mut versions) = (BTreeSet::new(), BTreeSet::new());
        for writer in writers {
            let (pairs, seen) = writer.await.unwrap();
            expected.extend(pairs);
            versions.extend(seen);
        }
        replica.catch_up(&nodes[1]).await.unwrap();
        assert_eq!(replica.pairs, expected);
        assert_eq!(stored(&nodes[0]).await, (replica.place, replica.sorted()));
        // Every version of the graph was some writer's, and some had several.
        assert_eq!(
            versions.into_iter().collect::<Vec<_>>(),
            Vec::from_iter(1..=replica.place.version)
        );
        assert!(replica.place.version < 10 * ROUNDS, "{:?}", replica.place);
    });
}

const ROUNDS: u64 = 60;

async fn write(store: Arc<PostgresStore>, writer: u64) -> (BTreeSet<Pair>, BTreeSet<u64>) {
    let mut random = fastrand::Rng::with_seed(writer);
    let (mut model, mut versions) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..ROUNDS {
        let mut pick = || -> BTreeSet<Pair> {
            let id = |n: u64| if n.is_multiple_of(3) { format!("name{n}") } else { n.to_string() };
            let pair = |n: u64| (format!("{writer}w{n}"), id(n));
            (0..random.u64(0..5)).map(|_| random.u64(0..12)).map(pair).collect()
        };
        let (added, removed) = (pick(), pick());
        let done = store.change(vec_of(&added), vec_of(&removed)).await.unwrap();
        let gone: Vec<Pair> = removed.into_iter().filter(|pair| model.remove(pair)).collect();
        let new: Vec<Pair> = added.into_iter().filter(|pair| model.insert(pair.clone())).collect();
        assert_eq!((sorted(done.added), sorted(done.removed)), (new.clone(), gone.clone()));
        if !(new.is_empty() && gone.is_empty()) && new != gone {
            versions.insert(done.place.version);
        }
    }
    (model, versions)
}

/// Many callers at once ask for the same pair: it is new for one of them.
#[test]
fn pair_that_many_add_is_new_for_one() {
    let Some(server) = server() else { return };
    run(async {
        let store = Arc::new(connect(&server).await);
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.change(pairs(&[("1", "2")]), vec![]).await })
            })
            .collect();
        let mut new = 0;
        for asked in asked {
            new += asked.await.unwrap().unwrap().added.len();
        }
        assert_eq!(new, 1);
        assert_eq!(stored(&store).await.0.version, 1);
    });
}

#[test]
fn change_by_sql_is_seen_by_the_poll() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let mut versions = store.versions();
        let mut replica = Replica::bootstrap(&store).await;
        assert_eq!(versions.next().await, Some(Seen::At(replica.place)));
        let sql = "select encke.change(added => array[['alice', 'rj'], ['7', 'o''r']])";
        assert_eq!(server.sql(sql).unwrap(), "1");
        let Some(Seen::At(place)) = versions.next().await else { panic!("it is away") };
        replica.catch_up(&store).await.unwrap();
        assert_eq!(
            (replica.place, replica.sorted()),
            (place, pairs(&[("7", "o'r"), ("alice", "rj")]))
        );
        let sql = "select encke.change(removed => array[['7', 'o''r'], ['x', 'y']])";
        assert_eq!(server.sql(sql).unwrap(), "2");
        replica.catch_up(&store).await.unwrap();
        assert_eq!(stored(&store).await, (replica.place, pairs(&[("alice", "rj")])));

        for (bad, why) in [
            ("array[['a b', 'c']]", "'a b' is not an id"),
            ("array[['a', null]]", "null is not an id"),
            ("array['a', 'b']", "pairs are arrays of two texts"),
            ("array[['a', 'b']], array[['a', 'b']]", "both added and removed"),
        ] {
            let error = server.sql(&format!("select encke.change({bad})")).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let rolled_back = "begin; select encke.change(array[['a', 'b']]); rollback";
        server.sql(rolled_back).unwrap();
        assert_eq!(stored(&store).await.0, replica.place);
    });
}

fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort();
    pairs
}

fn vec_of(pairs: &BTreeSet<Pair>) -> Vec<Pair> {
    pairs.iter().cloned().collect()
}

#[test]
fn error_of_a_server_that_answers_is_not_told_as_its_absence() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        for (code, is_away, words) in [
            ("0A000", false, "cannot be used"),
            ("22023", false, "cannot be used"),
            ("2BP01", false, "cannot be used"),
            ("42809", false, "cannot be used"),
            ("40P01", true, "is away"),
            // As a pooler says it whose server is gone, maybe behind the commit.
            ("08P01", false, "it is not known whether the graph was changed"),
            ("40003", false, "it is not known whether the graph was changed"),
            ("53100", true, "is away"),
            ("57014", true, "is away"),
            ("26000", true, "a pooler must give each client a connection of its own"),
            ("42P05", true, "a pooler must give each client a connection of its own"),
        ] {
            let raise = format!(
                "create or replace function encke.refuse_where_a_table_is_the_graph()
                     returns void language plpgsql as
                     $$ begin raise exception 'no' using errcode = '{code}'; end $$"
            );
            server.sql(&raise).unwrap();
            let error = store.change(pairs(&[("1", "2")]), vec![]).await.unwrap_err();
            assert_eq!(matches!(error, PostgresError::Away(_)), is_away, "{code}: {error}");
            let told = error.to_string();
            assert!(told.contains(words) && told.contains(code), "{code}: {told}");
        }
        // Neither is for good.
        server
            .sql(
                "create or replace function encke.refuse_where_a_table_is_the_graph()
            returns void language sql as 'select'",
            )
            .unwrap();
        store.change(pairs(&[("1", "2")]), vec![]).await.unwrap();
    });
}

#[test]
fn prepared_transaction_that_holds_up_all_changes_is_told_where_it_is() {
    let settings = ["fsync=off", "max_prepared_transactions=2"];
    let Some(server) = Postgres::start(&settings) else { return };
    run(async {
        let store = connect(&server).await;
        let mut config = config(&server);
        config.statement_timeout = Duration::from_secs(8);
        let hasty = PostgresStore::connect(config).await.unwrap();
        server
            .sql("begin; select encke.change(array[['1', '2']]); prepare transaction 'forgotten'")
            .unwrap();
        let held_up = hasty.change(pairs(&[("3", "4")]), vec![]).await.unwrap_err();
        assert!(held_up.to_string().contains("pg_prepared_xacts"), "{held_up}");
        server.sql("commit prepared 'forgotten'").unwrap();
        store.change(pairs(&[("3", "4")]), vec![]).await.unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("1", "2"), ("3", "4")]));
    });
}

#[test]
fn answer_that_is_none_does_not_end_the_writer() {
    let Some(server) = server() else { return };
    run(async {
        let store = connect(&server).await;
        let says_nothing = "create or replace function encke.commit(
                added_subscribers text[], added_subscribees text[],
                removed_subscribers text[], removed_subscribees text[],
                out new_lineage uuid, out new_version bigint, out new_hash bigint,
                out did_add bytea, out did_remove bytea)
            language sql as $$ select lineage, version, hash, null::bytea, null::bytea
                from encke.version $$";
        server.sql(says_nothing).unwrap();
        for _ in 0..2 {
            let damaged = store.change(pairs(&[("1", "2")]), vec![]).await;
            assert!(matches!(damaged, Err(PostgresError::Damaged(_))), "{damaged:?}");
        }
    });
}
