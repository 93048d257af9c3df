//! What others in the database may do does not become what Encke does, and its functions run with
//! the settings that they need.

use crate::support::{TABLE, connect, follows, pairs, run, same, server, stored};

/// Functions and operators in `public` whose arguments fit better than those of PostgreSQL's own.
/// Whose path does not begin with `pg_catalog` would call them.
const TRAPS: &str = "
    create function trap(what text) returns text language plpgsql as
        $$ begin raise exception 'somebody else''s % is called', what; end $$;
    create function quote_ident(name) returns text language sql as
        $$ select public.trap('quote_ident') $$;
    create function format_type(oid, text) returns text language sql as
        $$ select public.trap('format_type') $$;
    create function convert_to(text, text) returns bytea language sql as
        $$ select public.trap('convert_to')::bytea $$;
    create function convert_from(bytea, text) returns text language sql as
        $$ select public.trap('convert_from') $$;
    create function pg_total_relation_size(oid) returns bigint language sql as
        $$ select public.trap('pg_total_relation_size')::bigint $$;
    create function same(oid, regclass) returns boolean language sql as
        $$ select public.trap('=')::boolean $$;
    create operator = (leftarg = oid, rightarg = regclass, function = same);";

#[test]
fn functions_that_others_make_in_public_are_not_called() {
    let Some(server) = server() else { return };
    run(async {
        server.sql(TABLE).unwrap();
        server.sql(TRAPS).unwrap();
        let called = server.sql("select quote_ident('x'::name)").unwrap_err();
        assert!(called.contains("somebody else's quote_ident is called"), "{called}");
        let store = connect(&server).await;
        store.change(pairs(&[("a", "b")]), vec![]).await.unwrap();
        let mut load = store.load();
        load.push("c", "d").unwrap();
        load.finish().await.unwrap();
        store.mend().await.unwrap();
        assert_eq!(stored(&store).await.1, pairs(&[("a", "b"), ("c", "d")]));
        store.install(&follows()).await.unwrap();
        server.sql("insert into follows values (1, 2); delete from follows").unwrap();
        server.sql("begin; insert into follows values (1, 2), (3, 4); commit").unwrap();
        let status = store.status().await.unwrap();
        assert_eq!(status.source.map(|source| source.table).as_deref(), Some("public.follows"));
        same(&store, "at the end").await;
        // Nor where somebody calls them without the path of a session of ours.
        let columns = "select count(*) from encke.source_columns()";
        assert_eq!(server.sql(columns).unwrap(), "1");
        let hash = "select encke.hash('a', 'b') = encke.hash('a', 'c')";
        assert_eq!(server.sql(hash).unwrap(), "f");
        assert!(store.uninstall().await.unwrap());
    });
}

/// A function that is called as its owner has a path of its own, and so has each that is called
/// from outside. The rest are expressions of those, and may be run by nobody but the owner.
#[test]
fn functions_have_the_settings_that_they_need() {
    let Some(server) = server() else { return };
    run(async {
        connect(&server).await;
        let ours = "from pg_proc where pronamespace = 'encke'::regnamespace";
        let has = |setting: &str| {
            format!("exists (select from unnest(proconfig) as c where c like '{setting}%')")
        };
        let (path, jit) = (has("search_path=pg_catalog, pg_temp"), has("jit=off"));
        let without = format!(
            "select string_agg(proname, ' ' order by proname) {ours}
                 and not {path} and not prosecdef"
        );
        assert_eq!(
            server.sql(&without).unwrap(),
            "apply_few apply_pair as_integer hash is_id number_of_id source_columns_within \
             source_has source_is_named wrap"
        );
        let unsafe_ones = format!("select proname {ours} and not {path} and prosecdef");
        assert_eq!(server.sql(&unsafe_ones).unwrap(), "");
        // What a plan without sequential scans costs on paper would have it compiled.
        let compiled =
            format!("select proname {ours} and {} and not {jit}", has("enable_seqscan=off"));
        assert_eq!(server.sql(&compiled).unwrap(), "");
        // An access list that is null is open to all.
        let open = format!(
            "select proname {ours} and (proacl is null or exists
                 (select from aclexplode(proacl) where grantee = 0))"
        );
        assert_eq!(server.sql(&open).unwrap(), "");
    });
}
