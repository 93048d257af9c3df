# What cases type beside the program's own commands.

# A program at "$1" that is the script "$2".
script() {
    printf '#!/bin/sh\n%s\n' "$2" > "$1"
    chmod 755 "$1"
}

# `encke` with the other arguments, whose own file is gone. What a demo starts as its server is the
# file of that name (readlink(2) of /proc/self/exe): the script "$1", or nothing without one. `$as`
# stands before it.
with_server() {
    # A second name where it can have one: a copy is 80 MB.
    ln "$(command -v encke)" gone 2> /dev/null || cp "$(command -v encke)" gone
    exec 3< gone
    rm gone
    [ -z "$1" ] || script 'gone (deleted)' "$1"
    shift
    exec $as /proc/self/fd/3 "$@"
}

# Ignores that children end (signal(7)), so that nobody can wait for them. A shell cannot.
unwatched='env --ignore-signal=CHLD'

# What stands behind it, with the error "$1" for the system calls "$2" (refuse.pl).
refuse() {
    exec perl "$REFUSE" "$@"
}

# A NATS that says that it takes clients, once "$1" is done with it.
nats() {
    script nats-server "$1
        printf 'Listening for client connections on 127.0.0.1:1\nServer is ready\n' >&2
        exec sleep 3600"
    export ENCKE_NATS_SERVER="$PWD/nats-server"
}

# A PostgreSQL whose programs are the scripts "$1" (initdb) and "$2".
postgres() {
    chmod 711 . ..
    mkdir bin
    script bin/initdb "$1"
    script bin/postgres "$2"
    export ENCKE_POSTGRES_BIN="$PWD/bin"
}

# What stands behind it, as root of namespaces of its own.
apart() {
    case $(id -u) in
        0) unshare --mount --uts "$@" ;;
        *) unshare --user --map-root-user --mount --uts "$@" ;;
    esac
}
