-- The graph in PostgreSQL, migration 4: a change of few pairs, as most are, takes few and short
-- statements, whether a node makes it or a table that is the graph. What is called within one
-- change is called as an expression, for a query over a function costs more than most functions,
-- and has no settings of its own.

-- What a statement touched is noted in one row if it is little, and found by its transaction's
-- number: rows that were taken away lie in the table until a vacuum, and are not read. Notes have
-- numbers that grow, so each is found without those that the transaction took away before it. The
-- table is altered, which waits for transactions with notes in it. One that begins its note before
-- this and writes it behind this goes on: it has a note without pairs, and they are in `touched`.
alter table encke.unsettled
    add column transaction xid8 not null default pg_current_xact_id(),
    add column inserted boolean not null default false,
    add column subscribers text[],
    add column subscribees text[],
    add column number bigint generated always as identity;
create index unsettled_by_transaction on encke.unsettled (transaction, number);

-- As before. An immutable function is not put in place of its call where it calls `convert_to`,
-- which is stable; and a call costs ten times as much. The encoding is a `name`, as that function
-- has it: a function of another schema for a text there would fit better.
create or replace function encke.hash(subscriber text, subscribee text) returns bigint
language sql stable parallel safe as $$
    select ('x' || encode(substring(sha256(
        convert_to(subscriber, 'UTF8'::name) || '\x00'::bytea
            || convert_to(subscribee, 'UTF8'::name)
    ) for 8), 'hex'))::bit(64)::bigint
$$;

-- A table that becomes the graph is compared whole when it does. What the transaction noted before
-- that is of no more use, and may be of another table or other columns.
create or replace function encke.source_named() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.subscriber_name := (select attname from pg_attribute
        where attrelid = new.relation and attnum = new.subscriber);
    new.subscribee_name := (select attname from pg_attribute
        where attrelid = new.relation and attnum = new.subscribee);
    new.named_for := new.relation;
    delete from encke.unsettled u where u.transaction = pg_current_xact_id();
    delete from encke.touched;
    return new;
end
$$;

-- The columns of the source as SQL names and types, as `source_columns` says them, in one statement.
-- Its parts cannot be joined in another way, so that all are looked up by key. Its callers have set
-- the path: with any other one, functions of other schemas could stand in for those it calls.
create function encke.source_columns_within(
    out relation regclass, out a text, out b text, out a_type text, out b_type text
)
language plpgsql stable as $$
begin
    -- A column that was renamed keeps its number, whoever has its name now. In a database that was
    -- restored it may have another, and is found by its name.
    select s.relation, x.name, y.name, x.type, y.type into relation, a, b, a_type, b_type
        from encke.source s
        cross join lateral (
            select quote_ident(attname) as name, format_type(atttypid, null) as type
            from pg_catalog.pg_attribute where attrelid = s.relation
                and attnum = case when s.named_for = s.relation::oid then s.subscriber
                    else (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attname = s.subscriber_name
                            and n.attnum > 0) end
            limit 1) x
        cross join lateral (
            select quote_ident(attname) as name, format_type(atttypid, null) as type
            from pg_catalog.pg_attribute where attrelid = s.relation
                and attnum = case when s.named_for = s.relation::oid then s.subscribee
                    else (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attname = s.subscribee_name
                            and n.attnum > 0) end
            limit 1) y;
end
$$;

-- After each statement on the table. Pairs of up to 16 rows stand in the note itself, those of more
-- in `touched`.
create or replace function encke.source_touched() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    changed text;
    n bigint;
    a text[];
    b text[];
begin
    c := encke.source_columns_within();
    if c.relation is null or c.relation::oid <> tg_relid then
        return null;
    end if;
    if tg_op = 'TRUNCATE' then
        insert into encke.unsettled (whole) values (true);
        return null;
    end if;
    changed := format(case tg_op
        when 'INSERT' then 'new_rows'
        when 'DELETE' then 'old_rows'
        -- What is in both is as it was.
        else '((select %1$s, %2$s from old_rows except select %1$s, %2$s from new_rows)
            union all (select %1$s, %2$s from new_rows except select %1$s, %2$s from old_rows)) p'
    end || ' where %1$s is not null and %2$s is not null', c.a, c.b);
    if tg_op = 'DELETE' then
        select count(*) into n from (select from old_rows limit 17) r;
    else
        select count(*) into n from (select from new_rows limit 17) r;
    end if;
    if n <= 16 then
        execute format('select array_agg(%s::text), array_agg(%s::text) from %s',
            c.a, c.b, changed) into a, b;
        n := cardinality(a);
    else
        execute format('insert into encke.touched select distinct %s::text, %s::text from %s',
            c.a, c.b, changed);
        get diagnostics n = row_count;
    end if;
    if n > 0 then
        insert into encke.unsettled (whole, inserted, subscribers, subscribees)
            values (false, tg_op = 'INSERT', a, b);
    end if;
    return null;
end
$$;

-- Just before the commit, as in migration 2; of several notes the first that is looked at settles
-- all, and the others are gone. None reads those with lower numbers, so the cost of all grows with
-- their number and not with its square. Few pairs are looked up one by one: the query for many
-- costs a millisecond to plan. Those of the only note, which inserted them, are not: nobody else
-- can have taken its rows away. The plans have no sequential scans, so they stay right when many
-- notes are dead, and are not compiled (JIT) for what that costs on paper.
create or replace function encke.source_settled() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set row_security = off set enable_seqscan = off set jit = off as $$
declare
    here constant xid8 := pg_current_xact_id();
    notes bigint;
    whole boolean;
    many boolean;
    inserted boolean;
    a text[];
    b text[];
    source oid;
    c record;
    rows bigint;
    add_a text[]; add_b text[]; remove_a text[]; remove_b text[];
    done record;
begin
    if not exists (select from encke.unsettled u
        where u.transaction = here and u.number = new.number)
    then
        return null;
    end if;
    -- Not what `new` says: what fires later may have come between it and this.
    select count(*), bool_or(u.whole), bool_or(u.subscribers is null), bool_and(u.inserted),
        min(u.subscribers), min(u.subscribees)
        into notes, whole, many, inserted, a, b
        from encke.unsettled u where u.transaction = here and u.number >= new.number;
    if notes > 1 then
        select array_agg(p.a), array_agg(p.b) into a, b from (
            select distinct p.a, p.b
            from encke.unsettled u, unnest(u.subscribers, u.subscribees) as p (a, b)
            where u.transaction = here and u.number >= new.number) p;
    end if;
    delete from encke.unsettled u where u.transaction = here and u.number >= new.number;
    select s.relation into source from encke.source s;
    -- Said for what needs no look-up, too: an application must not work until it has two rows.
    if row_security_active(source) then
        raise exception 'encke: row-level security may hide rows of % from %, so the graph would '
            'lose them', source::regclass, quote_ident(current_user)
            using errcode = 'insufficient_privilege',
                hint = 'alter role … bypassrls, or alter table … no force row level security';
    end if;
    if notes = 1 and inserted and not many and source is not null then
        done := encke.apply_few(a, b, null, null, true);
        return null;
    end if;
    -- Whoever comes second waits here, and sees below what the first one did.
    perform from encke.version where one for update;
    c := encke.source_columns_within();
    if not (whole or many) and cardinality(a) <= 16 and c.relation is not null then
        for i in 1 .. cardinality(a) loop
            execute format('select from %s t where t.%s = $1::%s and t.%s = $2::%s limit 1',
                c.relation, c.a, c.a_type, c.b, c.b_type) using a[i], b[i];
            get diagnostics rows = row_count;
            if rows > 0 then
                add_a := add_a || a[i];
                add_b := add_b || b[i];
            else
                remove_a := remove_a || a[i];
                remove_b := remove_b || b[i];
            end if;
        end loop;
        done := encke.apply_few(add_a, add_b, remove_a, remove_b, true);
        return null;
    end if;
    update encke.version set version = version where one;
    if c.relation is null then
        null;
    elsif whole then
        perform encke.compare_with_source();
    else
        insert into encke.touched (subscriber, subscribee) select * from unnest(a, b);
        perform encke.apply_query(format(
            'select p.subscriber, p.subscribee, exists (
                select from %1$s t where t.%2$s = p.subscriber::%4$s and t.%3$s = p.subscribee::%5$s)
            from (select distinct subscriber, subscribee from encke.touched) p',
            c.relation, c.a, c.b, c.a_type, c.b_type));
    end if;
    if many or cardinality(a) > 16 then
        delete from encke.touched;
    end if;
    return null;
end
$$;
-- These read whole tables.
alter function encke.compare_with_source() set enable_seqscan = on;
alter function encke.apply_query(text) set enable_seqscan = on;

-- The number that stands for an id; null where none does yet.
create function encke.number_of_id(id text) returns bigint
language plpgsql stable as $$
declare
    number bigint := encke.as_integer(id);
begin
    if number is null then
        select n.id into number from encke.names n where n.name = number_of_id.id;
    end if;
    return number;
end
$$;

-- Adds a pair, or takes it away; says whether that changed anything.
create function encke.apply_pair(subscriber text, subscribee text, is_added boolean)
returns boolean
language plpgsql as $$
declare
    a bigint := encke.number_of_id(subscriber);
    b bigint := encke.number_of_id(subscribee);
begin
    if not is_added then
        delete from encke.subscriptions s where s.subscribee = b and s.subscriber = a;
        return found;
    end if;
    if a is null then
        insert into encke.names (name) values (apply_pair.subscriber) returning id into a;
    end if;
    if b is null then
        -- Who follows themself may just have come.
        b := encke.number_of_id(subscribee);
    end if;
    if b is null then
        insert into encke.names (name) values (apply_pair.subscribee) returning id into b;
    end if;
    insert into encke.subscriptions values (a, b) on conflict do nothing;
    return found;
end
$$;

-- Adds and removes few pairs as one version. With `is_written` the version's row is written even
-- where the graph stays as it is: so a transaction that reads an older state (`repeatable read`)
-- fails, instead of looking for a pair among rows that are gone.
create function encke.apply_few(
    added_subscribers text[], added_subscribees text[],
    removed_subscribers text[], removed_subscribees text[], is_written boolean,
    out new_lineage uuid, out new_version bigint, out new_hash bigint,
    out did_add bytea, out did_remove bytea
)
language plpgsql as $$
declare
    come text := '';
    gone text := '';
    sum numeric := 0;
begin
    -- Whoever comes second waits here, and its next statements see what the first one did.
    select v.lineage, v.version, v.hash into strict new_lineage, new_version, new_hash
        from encke.version v where v.one for update;
    for i in 1 .. coalesce(cardinality(removed_subscribers), 0) loop
        if encke.apply_pair(removed_subscribers[i], removed_subscribees[i], false) then
            gone := gone || removed_subscribers[i] || E'\t' || removed_subscribees[i] || E'\n';
            sum := sum - encke.hash(removed_subscribers[i], removed_subscribees[i]);
        end if;
    end loop;
    for i in 1 .. coalesce(cardinality(added_subscribers), 0) loop
        if (encke.is_id(added_subscribers[i]) and encke.is_id(added_subscribees[i])) is not true then
            perform encke.check_ids(array[added_subscribers[i], added_subscribees[i]]);
        end if;
        if encke.apply_pair(added_subscribers[i], added_subscribees[i], true) then
            come := come || added_subscribers[i] || E'\t' || added_subscribees[i] || E'\n';
            sum := sum + encke.hash(added_subscribers[i], added_subscribees[i]);
        end if;
    end loop;
    did_add := convert_to(come, 'UTF8');
    did_remove := convert_to(gone, 'UTF8');
    if come <> '' or gone <> '' then
        new_version := new_version + 1;
        new_hash := encke.wrap(new_hash + sum);
        insert into encke.changes (version, hash, added, removed)
            values (new_version, new_hash, did_add, did_remove);
    elsif not is_written then
        return;
    end if;
    update encke.version set version = new_version, hash = new_hash where one;
end
$$;

-- What `apply` was goes on for many pairs, in statements for all of them at once.
alter function encke.apply(text[], text[], text[], text[]) rename to apply_many;

-- Adds and removes pairs as one version; few of them one by one, as the planner takes far longer
-- for the statements of `apply_many` than they then take.
create function encke.apply(
    added_subscribers text[], added_subscribees text[],
    removed_subscribers text[], removed_subscribees text[],
    out new_lineage uuid, out new_version bigint, out new_hash bigint,
    out did_add bytea, out did_remove bytea
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    pairs integer := coalesce(cardinality(added_subscribers), 0)
        + coalesce(cardinality(removed_subscribers), 0);
    done record;
begin
    if pairs <= 16 then
        done := encke.apply_few(added_subscribers, added_subscribees,
            removed_subscribers, removed_subscribees, false);
    else
        done := encke.apply_many(added_subscribers, added_subscribees,
            removed_subscribers, removed_subscribees);
    end if;
    new_lineage := done.new_lineage;
    new_version := done.new_version;
    new_hash := done.new_hash;
    did_add := done.did_add;
    did_remove := done.did_remove;
end
$$;

revoke execute on all functions in schema encke from public;
