-- The graph in PostgreSQL, migration 3: a table of the application that is the graph stays it over
-- a dump and a restore, is looked up by key however many other tables there are, is read as its
-- owner sees it, and can be compared with the graph.

-- A dump writes the name of a `regclass`, where of an oid it writes the number, which is another
-- table's after a restore. The columns' numbers may be others then too: their names are kept.
alter table encke.source
    alter column relation type regclass using relation::regclass,
    add column subscriber_name name,
    add column subscribee_name name,
    -- The number that the table had when its columns were named. It has another after a restore.
    add column named_for oid;

create function encke.source_named() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.subscriber_name := (select attname from pg_attribute
        where attrelid = new.relation and attnum = new.subscriber);
    new.subscribee_name := (select attname from pg_attribute
        where attrelid = new.relation and attnum = new.subscribee);
    new.named_for := new.relation;
    return new;
end
$$;
create trigger named before insert or update on encke.source
    for each row execute function encke.source_named();
update encke.source set relation = relation;

-- The columns of the source as SQL names and types. One row at a time: a plan that joins would read
-- all of pg_attribute, since nobody ever analyzes a table of one row.
create or replace function encke.source_columns(
    out relation regclass, out a text, out b text, out a_type text, out b_type text
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    s encke.source;
    a_number smallint;
    b_number smallint;
begin
    select * into s from encke.source;
    if not found then
        return;
    end if;
    -- One that was renamed keeps its number, whoever has its name now.
    a_number := s.subscriber;
    b_number := s.subscribee;
    if s.named_for <> s.relation::oid then
        select attnum into a_number from pg_attribute
            where attrelid = s.relation and attname = s.subscriber_name and attnum > 0;
        select attnum into b_number from pg_attribute
            where attrelid = s.relation and attname = s.subscribee_name and attnum > 0;
    end if;
    select quote_ident(attname), format_type(atttypid, null) into a, a_type
        from pg_attribute where attrelid = s.relation and attnum = a_number;
    select quote_ident(attname), format_type(atttypid, null) into b, b_type
        from pg_attribute where attrelid = s.relation and attnum = b_number;
    if a is not null and b is not null then
        relation := s.relation;
    end if;
end
$$;

-- A query for the pairs that only one of both has: subscriber, subscribee, whether the table has
-- it.
create function encke.source_difference_query() returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    wanted text;
    stored text := 'select coalesce(a.name, s.subscriber::text),
            coalesce(b.name, s.subscribee::text)
        from encke.subscriptions s
        left join encke.names a on a.id = s.subscriber
        left join encke.names b on b.id = s.subscribee';
begin
    select * into c from encke.source_columns();
    if c.relation is null then
        return null;
    end if;
    wanted := format('select %1$s::text collate "C", %2$s::text collate "C" from %3$s
        where %1$s is not null and %2$s is not null', c.a, c.b, c.relation);
    return format(
        'select *, true from (%1$s except %2$s) as p
        union all select *, false from (%2$s except %1$s) as m', wanted, stored);
end
$$;

-- Makes the graph what the table says, whatever it was.
create or replace function encke.compare_with_source() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform encke.apply_query(encke.source_difference_query());
end
$$;

-- Just before the commit, as in migration 2. Few pairs, as most transactions touch them, are looked
-- up one by one: the query for many costs a millisecond to plan.
create or replace function encke.source_settled() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c record;
    pair record;
    few constant bigint := 16;
    there boolean;
    add_a text[]; add_b text[]; remove_a text[]; remove_b text[];
begin
    if not exists (select from encke.unsettled) then
        return null;
    end if;
    update encke.version set version = version where one;
    select * into c from encke.source_columns();
    if c.relation is not null and exists (select from encke.unsettled where whole) then
        perform encke.compare_with_source();
    elsif c.relation is not null
        and (select count(*) from (select from encke.touched limit few + 1) t) <= few
    then
        for pair in select distinct subscriber, subscribee from encke.touched loop
            execute format('select exists (select from %s t where t.%s = $1::%s and t.%s = $2::%s)',
                c.relation, c.a, c.a_type, c.b, c.b_type)
                into there using pair.subscriber, pair.subscribee;
            if there then
                add_a := add_a || pair.subscriber;
                add_b := add_b || pair.subscribee;
            else
                remove_a := remove_a || pair.subscriber;
                remove_b := remove_b || pair.subscribee;
            end if;
        end loop;
        perform encke.check_ids(add_a);
        perform encke.check_ids(add_b);
        perform encke.apply(add_a, add_b, remove_a, remove_b);
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

-- Some of the pairs that only one of both has, and how many there are.
create function encke.source_differences(
    most integer, out subscriber text, out subscribee text, out in_table boolean, out total bigint
)
returns setof record
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    query text := encke.source_difference_query();
begin
    if query is not null then
        return query execute format(
            'select d.a, d.b, d.t, count(*) over () from (%s) as d (a, b, t) limit %s', query, most);
    end if;
end
$$;

-- What row-level security hides from whoever writes, and from the owner where it is forced, would
-- be gone from the graph. So rows are read without it, and where that may not be it is an error.
alter function encke.source_settled() set row_security = off;
alter function encke.compare_with_source() set row_security = off;
alter function encke.import_source() set row_security = off;
alter function encke.source_differences(integer) set row_security = off;

revoke execute on all functions in schema encke from public;
