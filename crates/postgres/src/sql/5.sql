-- The graph in PostgreSQL, migration 5: a row of a table that is the graph takes half as many
-- statements, and none that is planned for it alone. In the first of a transaction each statement
-- and each expression of a function is made ready, which takes longer than it then does.

-- Of the notes that a transaction has the first fires, and settles those behind it. The trigger is
-- made anew, which waits for transactions that have notes.
alter table encke.unsettled add column fires boolean not null default true;
drop trigger settle on encke.unsettled;
create constraint trigger settle after insert on encke.unsettled
    deferrable initially deferred for each row when (new.fires)
    execute function encke.source_settled();

-- A statement that notes the pairs of `query`, if it has any, and no more than `most`. The note fires
-- unless there is one that does: the last four of all transactions are looked at for it, since those
-- that were settled lie there, and to pass all of them for each statement would take the square of
-- their number. A note that fires without need does no harm.
create function encke.note_statement(query text, most integer) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select format($f$
            insert into encke.unsettled (whole, inserted, subscribers, subscribees, fires)
                select false, tg_op = 'INSERT', array_agg(p.a), array_agg(p.b), not exists (
                    select from encke.unsettled u where u.transaction = pg_current_xact_id()
                        and u.number > (
                            select pg_sequence_last_value('encke.unsettled_number_seq') - 4))
                from (%s) as p (a, b) where p.a is not null and p.b is not null
                having count(*) between 1 and %s;$f$,
        query, most)
$$;

-- Makes the functions that name the table and its columns, so that their statements are planned once
-- a session. Where one has another name by now, `source_is_named` says so, and names are looked up
-- for each statement until the table is installed again.
create function encke.make_source_functions() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $make$
declare
    c record;
    numbers smallint[];
    of_new text;
    of_old text;
    is_named text := 'select false';
    has text := 'begin return null; end';
    begins text := 'begin';
begin
    c := encke.source_columns_within();
    if c.relation is not null then
        select array_agg(attnum order by quote_ident(attname) = c.b) into strict numbers
            from pg_attribute
            where attrelid = c.relation and attnum > 0 and quote_ident(attname) in (c.a, c.b);
        is_named := format('select (pg_identify_object(1259, source, %s)).identity = %L
            and (pg_identify_object(1259, source, %s)).identity = %L',
            numbers[1], (pg_identify_object(1259, c.relation, numbers[1])).identity,
            numbers[2], (pg_identify_object(1259, c.relation, numbers[2])).identity);
        -- The row's type is that of the columns at the time of the call.
        has := format($f$
declare
    pair %1$s;
begin
    pair.%2$s := subscriber;
    pair.%3$s := subscribee;
    perform from %1$s t where t.%2$s = pair.%2$s and t.%3$s = pair.%3$s limit 1;
    return found;
end$f$, c.relation, c.a, c.b);
        -- Qualified: a column may be called as a variable is.
        of_new := format('select r.%s::text, r.%s::text from new_rows r', c.a, c.b);
        of_old := format('select r.%s::text, r.%s::text from old_rows r', c.a, c.b);
        -- What is in both is as it was.
        begins := format($f$
begin
    if tg_op = 'TRUNCATE' or not encke.source_is_named(tg_relid) then
        null;
    elsif tg_op = 'INSERT' then%s
        if found then
            return null;
        end if;
        perform from new_rows offset 16;
        if not found then
            return null;
        end if;
    elsif tg_op = 'DELETE' then%s
        if found then
            return null;
        end if;
        perform from old_rows offset 16;
        if not found then
            return null;
        end if;
    else
        perform from new_rows offset 16;
        if not found then%s
            return null;
        end if;
    end if;$f$,
            encke.note_statement(of_new || ' limit 17', 16),
            encke.note_statement(of_old || ' limit 17', 16),
            encke.note_statement(format('(%1$s except %2$s)
                    union all (%2$s except %1$s)', of_old, of_new), 32));
    end if;
    execute format('create or replace function encke.source_is_named(source oid) returns boolean
        language sql stable as %L', is_named);
    execute format('create or replace function encke.source_has(subscriber text, subscribee text)
        returns boolean language plpgsql as %L', has);
    execute format('create or replace function encke.source_touched() returns trigger
        language plpgsql security definer set search_path = pg_catalog, pg_temp
        set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as %L',
        $f$
declare
    c record;
    changed text;
    n bigint;
    a text[];
    b text[];$f$ || begins || $f$
    -- Many rows, or rows of a table that is called otherwise than it was, as in migration 4.
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
end$f$);
end
$make$;

-- They are made anew whenever another table becomes the graph, or none is.
create function encke.source_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform encke.make_source_functions();
    return null;
end
$$;
create trigger functions after insert or update or delete on encke.source
    for each row execute function encke.source_changed();
select encke.make_source_functions();

-- Just before the commit, as in migration 4: of several notes the first settles all that come behind
-- it. The pairs of a note that inserted them are not looked up if it is the only one and the session
-- has made none since: nobody else can have taken its rows away.
create or replace function encke.source_settled() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set row_security = off
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    n record;
    is_whole boolean;
    is_many boolean;
    a text[];
    b text[];
    c record;
    is_known boolean;
    has boolean;
    rows bigint;
    add_a text[]; add_b text[]; remove_a text[]; remove_b text[];
    done record;
begin
    delete from encke.unsettled u
        where u.transaction = new.transaction and u.number = new.number
        returning exists (select from encke.unsettled o
                where o.transaction = new.transaction and o.number > new.number) as several,
            new.inserted and currval('encke.unsettled_number_seq') = new.number as is_last,
            (select s.relation::oid from encke.source s) as source
        into n;
    if not found then
        return null;
    end if;
    -- Said for what needs no look-up, too: an application must not work until it has two rows.
    if row_security_active(n.source) then
        raise exception 'encke: row-level security may hide rows of % from %, so the graph would '
            'lose them', n.source::regclass, quote_ident(current_user)
            using errcode = 'insufficient_privilege',
                hint = 'alter role … bypassrls, or alter table … no force row level security';
    end if;
    if n.is_last and n.source is not null and new.subscribers is not null then
        done := encke.apply_few(new.subscribers, new.subscribees, null, null, true);
        return null;
    end if;
    is_whole := new.whole;
    is_many := new.subscribers is null;
    a := new.subscribers;
    b := new.subscribees;
    if n.several then
        with gone as (
            delete from encke.unsettled u
                where u.transaction = new.transaction and u.number > new.number
                returning u.whole, u.subscribers, u.subscribees
        )
        select is_whole or bool_or(g.whole), is_many or bool_or(g.subscribers is null),
            a || array_agg(p.x) filter (where p.x is not null),
            b || array_agg(p.y) filter (where p.x is not null)
            into is_whole, is_many, a, b
            from gone g left join unnest(g.subscribers, g.subscribees) as p (x, y) on true;
    end if;
    -- Whoever comes second waits here, and sees below what the first one did.
    perform from encke.version where one for update;
    if encke.source_is_named(n.source) then
        is_known := true;
        c := null;
    else
        c := encke.source_columns_within();
        is_known := c.relation is not null;
    end if;
    if is_known and not (is_whole or is_many) and cardinality(a) <= 16 then
        for i in 1 .. cardinality(a) loop
            if c is null then
                has := encke.source_has(a[i], b[i]);
            else
                execute format('select from %s t where t.%s = $1::%s and t.%s = $2::%s limit 1',
                    c.relation, c.a, c.a_type, c.b, c.b_type) using a[i], b[i];
                get diagnostics rows = row_count;
                has := rows > 0;
            end if;
            if has then
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
    c := encke.source_columns_within();
    if c.relation is null then
        null;
    elsif is_whole then
        perform encke.compare_with_source();
    else
        insert into encke.touched (subscriber, subscribee) select * from unnest(a, b);
        perform encke.apply_query(format(
            'select p.subscriber, p.subscribee, exists (
                select from %1$s t where t.%2$s = p.subscriber::%4$s and t.%3$s = p.subscribee::%5$s)
            from (select distinct subscriber, subscribee from encke.touched) p',
            c.relation, c.a, c.b, c.a_type, c.b_type));
    end if;
    if is_many or cardinality(a) > 16 then
        delete from encke.touched;
    end if;
    return null;
end
$$;
-- Their statements are about many pairs, or all.
alter function encke.apply_query(text) set plan_cache_mode = auto;
alter function encke.compare_with_source() set plan_cache_mode = auto;

-- As before, without a call for an id that is an integer, and a text is looked at where it becomes a
-- name: the others were.
create or replace function encke.apply_pair(subscriber text, subscribee text, is_added boolean)
returns boolean
language plpgsql as $$
declare
    a bigint := encke.as_integer(subscriber);
    b bigint := encke.as_integer(subscribee);
begin
    if a is null then
        a := encke.number_of_id(subscriber);
    end if;
    if b is null then
        b := encke.number_of_id(subscribee);
    end if;
    if not is_added then
        delete from encke.subscriptions s where s.subscribee = b and s.subscriber = a;
        return found;
    end if;
    if a is null or b is null then
        perform encke.check_ids(array[subscriber, subscribee]);
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

-- As before, with a statement less.
create or replace function encke.apply_few(
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
        with change as (
            insert into encke.changes (version, hash, added, removed)
                values (new_version, new_hash, did_add, did_remove)
        )
        update encke.version set version = new_version, hash = new_hash where one;
    elsif is_written then
        update encke.version set version = version where one;
    end if;
end
$$;

revoke execute on all functions in schema encke from public;
