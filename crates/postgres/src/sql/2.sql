-- The graph in PostgreSQL, migration 2: a table of the application as the graph.
--
-- Triggers of the table note which pairs a statement touched. Just before the transaction commits,
-- a deferred trigger looks which of them the table has then, and changes the graph accordingly. So
-- the version's row is locked for the length of a commit only, whatever the transaction does, and
-- rows with the same pair need no counter: a pair is in the graph while any row has it.

-- The columns of the source as SQL names and types.
create function encke.source_columns(
    out relation regclass, out a text, out b text, out a_type text, out b_type text
)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select s.relation::regclass, quote_ident(a.attname), quote_ident(b.attname),
        format_type(a.atttypid, null), format_type(b.atttypid, null)
    from encke.source s
    join pg_attribute a on a.attrelid = s.relation and a.attnum = s.subscriber
    join pg_attribute b on b.attrelid = s.relation and b.attnum = s.subscribee
$$;

-- After each statement on the table.
create function encke.source_touched() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    pairs text;
    touched bigint;
begin
    select * into c from encke.source_columns();
    if c.relation is null or c.relation::oid <> tg_relid then
        return null;
    end if;
    if tg_op = 'TRUNCATE' then
        insert into encke.unsettled (whole) values (true);
        return null;
    end if;
    pairs := format('select %s::text as a, %s::text as b from', c.a, c.b);
    execute 'insert into encke.touched select a, b from (' || case tg_op
        when 'INSERT' then format('select distinct * from (%s new_rows) r', pairs)
        when 'DELETE' then format('select distinct * from (%s old_rows) r', pairs)
        -- What is in both is as it was.
        else format('(%1$s old_rows except %1$s new_rows)
            union all (%1$s new_rows except %1$s old_rows)', pairs)
    end || ') p where a is not null and b is not null';
    get diagnostics touched = row_count;
    if touched > 0 and not exists (select from encke.unsettled) then
        insert into encke.unsettled (whole) values (false);
    end if;
    return null;
end
$$;

-- Adds and removes the pairs of `query`, whose rows are (subscriber, subscribee, whether it is to
-- be there), 65,536 a version.
create function encke.apply_query(query text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    slice record;
begin
    for slice in execute format($q$
        select array_agg(a) filter (where there) as add_a,
            array_agg(b) filter (where there) as add_b,
            array_agg(a) filter (where not there) as remove_a,
            array_agg(b) filter (where not there) as remove_b
        from (select *, (row_number() over () - 1) / 65536 as n from (%s) as q (a, b, there)) p
        group by n
    $q$, query) loop
        perform encke.check_ids(slice.add_a);
        perform encke.check_ids(slice.add_b);
        perform encke.apply(slice.add_a, slice.add_b, slice.remove_a, slice.remove_b);
    end loop;
end
$$;

-- Makes the graph what the table says, whatever it was.
create function encke.compare_with_source() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    wanted text;
    stored text := 'select coalesce(a.name, s.subscriber::text),
            coalesce(b.name, s.subscribee::text)
        from encke.subscriptions s
        left join encke.names a on a.id = s.subscriber
        left join encke.names b on b.id = s.subscribee';
begin
    select * into strict c from encke.source_columns();
    wanted := format('select %1$s::text collate "C", %2$s::text collate "C" from %3$s
        where %1$s is not null and %2$s is not null', c.a, c.b, c.relation);
    perform encke.apply_query(format(
        'select *, true from (%1$s except %2$s) as p
        union all select *, false from (%2$s except %1$s) as m', wanted, stored));
end
$$;

-- Just before the commit. The version's row first: what is read after that nobody else changes, and
-- of two transactions that touched the same pair the second one sees both. It is written even where
-- the graph stays as it is: so a transaction that reads an older state (`repeatable read`) fails,
-- instead of looking for the pair among rows that are gone.
create function encke.source_settled() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c record;
begin
    if not exists (select from encke.unsettled) then
        return null;
    end if;
    update encke.version set version = version where one;
    select * into c from encke.source_columns();
    if c.relation is not null and exists (select from encke.unsettled where whole) then
        perform encke.compare_with_source();
    elsif c.relation is not null then
        perform encke.apply_query(format(
            'select p.subscriber, p.subscribee, exists (
                select from %1$s t where t.%2$s = p.subscriber::%4$s and t.%3$s = p.subscribee::%5$s)
            from (select distinct subscriber, subscribee from encke.touched) p',
            c.relation, c.a, c.b, c.a_type, c.b_type));
    end if;
    delete from encke.touched;
    delete from encke.unsettled;
    return null;
end
$$;
create constraint trigger settle after insert on encke.unsettled
    deferrable initially deferred for each row execute function encke.source_settled();

-- What a column's value is as a number, in SQL: null where it is a name.
create function encke.number_of(value text, type text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when type in ('smallint', 'integer', 'bigint')
            then format('case when %1$s >= 0 then %1$s::bigint end', value)
        when type = 'uuid' then 'null::bigint'
        else format('encke.as_integer(%s)', value)
    end
$$;

-- Fills the empty graph from the table: indices are made when all is there, and replicas, which
-- would have to take everything, are told to by a new lineage.
create function encke.import_source() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    bad text;
    sum numeric;
begin
    select * into strict c from encke.source_columns();
    for bad in execute format('select id from (
            select %1$s::text as id, %4$s as number from %3$s
            union all select %2$s::text, %5$s from %3$s) i
        where number is null and not encke.is_id(id) limit 1',
        c.a, c.b, c.relation, encke.number_of(c.a, c.a_type), encke.number_of(c.b, c.b_type))
    loop
        perform encke.check_ids(array[bad]);
    end loop;
    alter table encke.subscriptions drop constraint subscriptions_by_subscribee;
    drop index encke.subscriptions_by_subscriber;
    execute format('insert into encke.names (name)
        select id from (
            select %1$s::text as id from %3$s where %4$s is null
            union select %2$s::text from %3$s where %5$s is null) i
        where id is not null on conflict do nothing',
        c.a, c.b, c.relation, encke.number_of(c.a, c.a_type), encke.number_of(c.b, c.b_type));
    analyze encke.names;
    execute format('insert into encke.subscriptions (subscriber, subscribee)
        select distinct coalesce(p.x, x.id), coalesce(p.y, y.id)
        from (select %4$s as x, %5$s as y,
                %1$s::text collate "C" as a, %2$s::text collate "C" as b
            from %3$s where %1$s is not null and %2$s is not null) p
        left join encke.names x on p.x is null and x.name = p.a
        left join encke.names y on p.y is null and y.name = p.b
        order by 2, 1',
        c.a, c.b, c.relation, encke.number_of(c.a, c.a_type), encke.number_of(c.b, c.b_type));
    alter table encke.subscriptions
        add constraint subscriptions_by_subscribee primary key (subscribee, subscriber);
    create unique index subscriptions_by_subscriber on encke.subscriptions (subscriber, subscribee);
    analyze encke.subscriptions;
    select sum(encke.hash(
        coalesce(a.name, s.subscriber::text), coalesce(b.name, s.subscribee::text))) into sum
        from encke.subscriptions s
        left join encke.names a on a.id = s.subscriber
        left join encke.names b on b.id = s.subscribee;
    delete from encke.changes;
    update encke.version set lineage = gen_random_uuid(), version = version + 1,
        hash = encke.wrap(coalesce(sum, 0)) where one;
end
$$;

-- Takes the triggers of the table away. The graph stays as it is and is changed through Encke
-- again.
create function encke.uninstall() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    source regclass;
    event text;
begin
    select s.relation::regclass into source from encke.source s;
    if not found then
        return false;
    end if;
    -- The table may be gone, and its triggers with it.
    if exists (select from pg_class where oid = source) then
        execute format('lock table %s in share row exclusive mode', source);
        foreach event in array array['insert', 'update', 'delete', 'truncate'] loop
            execute format('drop trigger if exists encke_%s on %s', event, source);
        end loop;
    end if;
    delete from encke.source;
    return true;
end
$$;

-- Makes `source` the graph: its rows are imported, and each change of them is one of the graph from
-- then on. Writes to the table wait until this is done. To call it again compares everything once
-- more.
create function encke.install(source regclass, subscriber name, subscribee name) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    relation pg_class;
    installed oid;
    a pg_attribute;
    b pg_attribute;
    event text;
begin
    -- Others would import an older state of the table than the one that the triggers go on from.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'encke: install in a transaction that is read committed'
            using errcode = 'EK003';
    end if;
    -- The table before the version's row, as the table's writers do it.
    execute format('lock table %s in share row exclusive mode', source);
    perform from encke.version for update;
    select * into strict relation from pg_class where oid = source;
    if relation.relkind <> 'r' or relation.relispartition or relation.relpersistence <> 'p'
        or exists (select from pg_inherits where inhparent = source or inhrelid = source)
    then
        raise exception 'encke: % is not a plain table: no view, no partitions, no inheritance, '
            'not temporary, not unlogged', source using errcode = 'EK003';
    end if;
    select s.relation into installed from encke.source s;
    if installed is not null and installed <> source and exists
        (select from pg_class where oid = installed)
    then
        raise exception 'encke: the graph is the table % already: uninstall it first',
            installed::regclass using errcode = 'EK003';
    end if;
    select * into a from pg_attribute
        where attrelid = source and attname = subscriber and attnum > 0 and not attisdropped;
    select * into b from pg_attribute
        where attrelid = source and attname = subscribee and attnum > 0 and not attisdropped;
    if a.attnum is null or b.attnum is null then
        raise exception 'encke: % has no column %', source,
            case when a.attnum is null then subscriber else subscribee end using errcode = 'EK003';
    end if;
    if a.attnum = b.attnum then
        raise exception 'encke: subscriber and subscribee are two columns' using errcode = 'EK003';
    end if;
    if exists (select from (values (a.atttypid), (b.atttypid)) as t (type) where type not in
        ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'text'::regtype,
            'varchar'::regtype))
    then
        raise exception
            'encke: the columns must be smallint, integer, bigint, uuid, text or varchar' using errcode = 'EK003';
    end if;
    if exists (select from pg_collation where oid in (a.attcollation, b.attcollation)
        and not collisdeterministic)
    then
        raise exception 'encke: the columns'' collation takes different texts for the same'
            using errcode = 'EK003';
    end if;
    -- Without one each change would read the whole table.
    if not exists (
        select from pg_index i where i.indrelid = source and i.indisvalid and i.indpred is null
            and i.indnkeyatts >= 2
            and (i.indkey[0], i.indkey[1]) in ((a.attnum, b.attnum), (b.attnum, a.attnum))
    ) then
        raise exception 'encke: % has no index that begins with its two columns', source
            using errcode = 'EK003', hint = format('create index concurrently on %s (%I, %I)',
                source, subscribee, subscriber);
    end if;

    insert into encke.source (relation, subscriber, subscribee)
        values (source, a.attnum, b.attnum)
        on conflict (one) do update set relation = excluded.relation,
            subscriber = excluded.subscriber, subscribee = excluded.subscribee;
    foreach event in array array['insert', 'update', 'delete', 'truncate'] loop
        execute format('create or replace trigger encke_%1$s after %1$s on %2$s %3$s
            for each statement execute function encke.source_touched()', event, source,
            case event
                when 'insert' then 'referencing new table as new_rows'
                when 'delete' then 'referencing old table as old_rows'
                when 'update' then 'referencing old table as old_rows new table as new_rows'
                else ''
            end);
    end loop;
    if exists (select from encke.subscriptions) then
        perform encke.compare_with_source();
    else
        perform encke.import_source();
    end if;
end
$$;

-- Nobody but the owner, until it is granted: see docs/postgres.md.
revoke execute on all functions in schema encke from public;
