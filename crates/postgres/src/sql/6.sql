-- The graph in PostgreSQL, migration 6: a column of the table that is the graph may be dropped, and
-- another one may get its name; and the table may be dropped.

-- As before. A column that was dropped is none: then that one counts which has its name now.
create or replace function encke.source_columns_within(
    out relation regclass, out a text, out b text, out a_type text, out b_type text
)
language plpgsql stable as $$
begin
    select s.relation, x.name, y.name, x.type, y.type into relation, a, b, a_type, b_type
        from encke.source s
        cross join lateral (
            select quote_ident(attname) as name, format_type(atttypid, null) as type
            from pg_catalog.pg_attribute where attrelid = s.relation
                and attnum = coalesce(
                    (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attnum = s.subscriber
                            and s.named_for = s.relation::oid and not n.attisdropped),
                    (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attname = s.subscriber_name
                            and n.attnum > 0 and not n.attisdropped))
            limit 1) x
        cross join lateral (
            select quote_ident(attname) as name, format_type(atttypid, null) as type
            from pg_catalog.pg_attribute where attrelid = s.relation
                and attnum = coalesce(
                    (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attnum = s.subscribee
                            and s.named_for = s.relation::oid and not n.attisdropped),
                    (select n.attnum from pg_catalog.pg_attribute n
                        where n.attrelid = s.relation and n.attname = s.subscribee_name
                            and n.attnum > 0 and not n.attisdropped))
            limit 1) y;
    -- Whoever changes rows of such a table is told, or the graph would no longer be what it says.
    if relation is null and exists (
        select from encke.source s join pg_catalog.pg_class t on t.oid = s.relation)
    then
        raise exception 'encke: % has lost a column that the graph is made of: name the columns '
            'again by `encke postgres install`, or `encke postgres uninstall`',
            (select s.relation from encke.source s) using errcode = 'EK003';
    end if;
end
$$;

-- Likewise, for one row, and without an error.
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
    if s.named_for = s.relation::oid then
        select attnum into a_number from pg_attribute
            where attrelid = s.relation and attnum = s.subscriber and not attisdropped;
        select attnum into b_number from pg_attribute
            where attrelid = s.relation and attnum = s.subscribee and not attisdropped;
    end if;
    if a_number is null then
        select attnum into a_number from pg_attribute where attrelid = s.relation
            and attname = s.subscriber_name and attnum > 0 and not attisdropped;
    end if;
    if b_number is null then
        select attnum into b_number from pg_attribute where attrelid = s.relation
            and attname = s.subscribee_name and attnum > 0 and not attisdropped;
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

-- What a table that is the graph no longer is, in words; null while it is, or where none is.
create function encke.source_lost() returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when t.oid is null then format('a table that is gone (its columns were %I and %I)',
            s.subscriber_name, s.subscribee_name)
        else format('the table %s, which has lost a column', s.relation) end
    from encke.source s left join pg_class t on t.oid = s.relation
    where (select c.relation is null from encke.source_columns() c)
$$;

-- As before; and where there is nothing to change, what to do.
create or replace function encke.refuse_where_a_table_is_the_graph() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    relation regclass;
begin
    select s.relation into relation from encke.source s;
    if not found then
        return;
    end if;
    if encke.source_lost() is not null then
        raise exception 'encke: the graph is %: name one again by `encke postgres install`, or '
            '`encke postgres uninstall`', encke.source_lost() using errcode = 'EK001';
    end if;
    raise exception 'encke: the graph is the table %: change its rows instead', relation
        using errcode = 'EK001';
end
$$;

-- As before; a table that is lost is not the same as the graph.
create or replace function encke.source_differences(
    most integer, out subscriber text, out subscribee text, out in_table boolean, out total bigint
)
returns setof record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set row_security = off as $$
declare
    query text := encke.source_difference_query();
begin
    if encke.source_lost() is not null then
        raise exception 'encke: the graph is %: name one again by `encke postgres install`, or '
            '`encke postgres uninstall`', encke.source_lost() using errcode = 'EK003';
    end if;
    if query is not null then
        return query execute format(
            'select d.a, d.b, d.t, count(*) over () from (%s) as d (a, b, t) limit %s', query, most);
    end if;
end
$$;

revoke execute on all functions in schema encke from public;
