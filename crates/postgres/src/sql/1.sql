-- The graph in PostgreSQL, migration 1. `encke.` stands for the schema that the configuration
-- names; the program puts that in. Each node may run this first: it does so in one transaction,
-- under an advisory lock.

-- Names have ids below zero; an integer is its own id. "C" compares bytes, whatever the database's
-- language is, so an index never depends on a library's version.
create table encke.names (
    id bigint primary key,
    name text collate "C" not null unique,
    check (id < 0)
);
create sequence encke.name_ids as bigint increment -1 minvalue -9223372036854775808 maxvalue -1
    start -1 owned by encke.names.id;
alter table encke.names alter id set default nextval('encke.name_ids');

-- The pairs. The second index is for SQL of the application and for the other direction's COPY.
create table encke.subscriptions (
    subscriber bigint not null,
    subscribee bigint not null,
    constraint subscriptions_by_subscribee primary key (subscribee, subscriber)
);
create unique index subscriptions_by_subscriber on encke.subscriptions (subscriber, subscribee);

-- The one row that every change updates: so versions have no gaps and are in the order of commits.
-- `hash` is the sum over all pairs of encke.hash, modulo 2^64, as a signed number.
create table encke.version (
    one boolean primary key default true check (one),
    lineage uuid not null,
    version bigint not null,
    hash bigint not null
) with (fillfactor = 10);
insert into encke.version (lineage, version, hash) values (gen_random_uuid(), 0, 0);

-- What each version did, kept for seven days: lines `subscriber<tab>subscribee<newline>` in UTF-8.
create table encke.changes (
    version bigint primary key,
    at timestamptz not null default clock_timestamp(),
    hash bigint not null,
    added bytea not null,
    removed bytea not null
);

-- An application's table that is the graph, if there is one. Columns by number, so that neither
-- table nor columns lose their place when they are renamed.
create table encke.source (
    one boolean primary key default true check (one),
    relation oid not null,
    subscriber smallint not null,
    subscribee smallint not null
);

-- Pairs of that table which the running transaction has touched, and the word that there are any.
-- A transaction takes its rows away before it commits, so nobody ever sees those of another, and
-- they need not survive a crash.
create unlogged table encke.touched (
    subscriber text not null,
    subscribee text not null
);
create unlogged table encke.unsettled (whole boolean not null);

-- The number behind canonical decimal digits below 2^63: `0`, `7`, not `007`, which is a name.
create function encke.as_integer(id text) returns bigint
language sql immutable parallel safe as $$
    select case
        when id ~ '^(0|[1-9][0-9]{0,17})$' then id::bigint
        when id ~ '^[1-9][0-9]{18}$' and id collate "C" <= '9223372036854775807' then id::bigint
    end
$$;

-- 1 to 255 bytes of UTF-8 without control characters, white space, '/', '?' and '#'.
create function encke.is_id(id text) returns boolean
language sql immutable parallel safe as $$
    select octet_length(id) between 1 and 255 and id !~
        '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/?#]'
$$;

-- The first 8 bytes, big endian, of SHA-256 over subscriber, a zero byte and subscribee.
create function encke.hash(subscriber text, subscribee text) returns bigint
language sql immutable parallel safe as $$
    select ('x' || encode(substring(sha256(
        convert_to(subscriber, 'UTF8') || '\x00'::bytea || convert_to(subscribee, 'UTF8')
    ) for 8), 'hex'))::bit(64)::bigint
$$;

-- A sum of hashes modulo 2^64, as a signed number.
create function encke.wrap(sum numeric) returns bigint
language sql immutable parallel safe as $$
    select (mod(mod(sum + 9223372036854775808, 18446744073709551616)
        + 18446744073709551616, 18446744073709551616) - 9223372036854775808)::bigint
$$;

-- Adds and removes pairs as one version; says what was really changed. No version is taken where
-- nothing is. Ids are checked and no pair is in both lists: the callers see to that.
--
-- Its plans are made once a session, when the tables may still be empty: without sequential scans
-- they stay right when the tables grow. What that costs on paper would have it compiled (JIT),
-- which takes longer than all the rest.
create function encke.apply(
    added_subscribers text[], added_subscribees text[],
    removed_subscribers text[], removed_subscribees text[],
    out new_lineage uuid, out new_version bigint, out new_hash bigint,
    out did_add bytea, out did_remove bytea
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    lines text;
    sum numeric;
begin
    -- Whoever comes second waits here, and its next statements see what the first one did.
    select v.lineage, v.version, v.hash into strict new_lineage, new_version, new_hash
        from encke.version v where v.one for update;
    did_add := '';
    did_remove := '';
    if cardinality(removed_subscribers) > 0 then
        with pairs as (
            select coalesce(encke.as_integer(u.a), a.id) as subscriber,
                coalesce(encke.as_integer(u.b), b.id) as subscribee
            from unnest(removed_subscribers, removed_subscribees) as u (a, b)
            left join encke.names a on a.name = u.a
            left join encke.names b on b.name = u.b
        ), gone as (
            delete from encke.subscriptions s using pairs p
            where s.subscribee = p.subscribee and s.subscriber = p.subscriber
            returning s.subscriber, s.subscribee
        ), texts as (
            select coalesce(a.name, g.subscriber::text) as a,
                coalesce(b.name, g.subscribee::text) as b
            from gone g
            left join encke.names a on a.id = g.subscriber
            left join encke.names b on b.id = g.subscribee
        )
        select string_agg(t.a || E'\t' || t.b || E'\n', ''), sum(encke.hash(t.a, t.b))
            into lines, sum from texts t;
        did_remove := convert_to(coalesce(lines, ''), 'UTF8');
        new_hash := encke.wrap(new_hash - coalesce(sum, 0));
    end if;
    if cardinality(added_subscribers) > 0 then
        insert into encke.names (name)
            select distinct u.name from unnest(added_subscribers || added_subscribees) as u (name)
            where encke.as_integer(u.name) is null
                and not exists (select from encke.names n where n.name = u.name);
        with pairs as (
            select coalesce(encke.as_integer(u.a), a.id) as subscriber,
                coalesce(encke.as_integer(u.b), b.id) as subscribee
            from unnest(added_subscribers, added_subscribees) as u (a, b)
            left join encke.names a on a.name = u.a
            left join encke.names b on b.name = u.b
        ), come as (
            insert into encke.subscriptions (subscriber, subscribee)
            select p.subscriber, p.subscribee from pairs p
            on conflict do nothing
            returning subscriptions.subscriber, subscriptions.subscribee
        ), texts as (
            select coalesce(a.name, c.subscriber::text) as a,
                coalesce(b.name, c.subscribee::text) as b
            from come c
            left join encke.names a on a.id = c.subscriber
            left join encke.names b on b.id = c.subscribee
        )
        select string_agg(t.a || E'\t' || t.b || E'\n', ''), sum(encke.hash(t.a, t.b))
            into lines, sum from texts t;
        did_add := convert_to(coalesce(lines, ''), 'UTF8');
        new_hash := encke.wrap(new_hash + coalesce(sum, 0));
    end if;
    if did_add <> '' or did_remove <> '' then
        new_version := new_version + 1;
        update encke.version set version = new_version, hash = new_hash where one;
        insert into encke.changes (version, hash, added, removed)
            values (new_version, new_hash, did_add, did_remove);
    end if;
end
$$;

-- Where a table of the application is the graph, a pair that the table does not have would be
-- undone by the next comparison with it.
create function encke.refuse_where_a_table_is_the_graph() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    relation oid;
begin
    select s.relation into relation from encke.source s;
    if found then
        raise exception 'encke: the graph is the table %: change its rows instead',
            coalesce(relation::regclass::text, '?') using errcode = 'EK001';
    end if;
end
$$;

-- What a node calls: `apply`, unless a table is the graph.
create function encke.commit(
    added_subscribers text[], added_subscribees text[],
    removed_subscribers text[], removed_subscribees text[],
    out new_lineage uuid, out new_version bigint, out new_hash bigint,
    out did_add bytea, out did_remove bytea
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform encke.refuse_where_a_table_is_the_graph();
    select a.* into new_lineage, new_version, new_hash, did_add, did_remove
        from encke.apply(
            added_subscribers, added_subscribees, removed_subscribers, removed_subscribees) a;
end
$$;

-- Refuses texts that are no ids.
create function encke.check_ids(ids text[]) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    bad text;
begin
    select i into bad from unnest(ids) as i where encke.is_id(i) is not true limit 1;
    if found then
        raise exception 'encke: % is not an id: 1 to 255 bytes of UTF-8, no control characters, '
            'no white space, no ''/'', ''?'', ''#''', coalesce(quote_literal(bad), 'null')
            using errcode = 'EK002';
    end if;
end
$$;

-- For SQL of the application: adds and removes pairs, each `array[subscriber, subscribee]`, in the
-- transaction that calls it; returns the version. The version's row stays locked until that
-- transaction ends, and all other changes wait, so call it last.
create function encke.change(added text[] default '{}', removed text[] default '{}')
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    add_a text[]; add_b text[]; remove_a text[]; remove_b text[];
    new_version bigint;
begin
    perform encke.refuse_where_a_table_is_the_graph();
    if (cardinality(added) > 0 and array_length(added, 2) is distinct from 2)
        or (cardinality(removed) > 0 and array_length(removed, 2) is distinct from 2)
    then
        raise exception 'encke: pairs are arrays of two texts: '
            'encke.change(added => array[[''subscriber'', ''subscribee'']])'
            using errcode = 'EK002';
    end if;
    perform encke.check_ids(added);
    perform encke.check_ids(removed);
    select array_agg(id order by n) filter (where n % 2 = 1),
        array_agg(id order by n) filter (where n % 2 = 0)
        into add_a, add_b from unnest(added) with ordinality as u (id, n);
    select array_agg(id order by n) filter (where n % 2 = 1),
        array_agg(id order by n) filter (where n % 2 = 0)
        into remove_a, remove_b from unnest(removed) with ordinality as u (id, n);
    if exists (
        select * from unnest(add_a, add_b) as a (x, y)
        intersect select * from unnest(remove_a, remove_b) as r (x, y)
    ) then
        raise exception 'encke: a pair is both added and removed' using errcode = 'EK002';
    end if;
    select a.new_version into new_version
        from encke.apply(add_a, add_b, remove_a, remove_b) a;
    return new_version;
end
$$;
