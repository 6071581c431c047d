# To be sourced: a PostgreSQL and a Redis of one's own, in a temporary folder, for a run of the tests or
# the benchmarks; gone when the program ends, however it ends. What is missing is installed (Debian).
#
#   install_missing    PostgreSQL, Redis, Python, a C compiler
#   start_services     and exports where they are:
#     STOCKHOLD_TEST_PG      postgres://… (a superuser)
#     STOCKHOLD_TEST_REDIS   redis://…
# shellcheck shell=bash

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '\nscripts/%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# --- what must be there -------------------------------------------------------------------------

# Where PostgreSQL's programs are: Debian keeps initdb and postgres out of the PATH.
pg_bin() {
    local dir
    for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) \
        "$(dirname "$(command -v initdb 2>/dev/null || echo /none/initdb)")"; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
            echo "$dir"
            return
        fi
    done
}

install_missing() {
    local missing=()
    [ -n "$(pg_bin)" ] || missing+=(postgresql)
    command -v redis-server >/dev/null || missing+=(redis-server)
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
    command -v cc >/dev/null || missing+=(build-essential)
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "please install: ${missing[*]} (only Debian is automated)"
    local root=()
    if ! is_root; then
        command -v sudo >/dev/null || die "please install as root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${root[@]}" apt-get update -q
    # RUNLEVEL=1 keeps the packages from starting servers that nobody asked for.
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -q -y --no-install-recommends "${missing[@]}"
    [ -n "$(pg_bin)" ] || die "PostgreSQL is installed, and its initdb is not found"
}

# --- services -----------------------------------------------------------------------------------

home=""      # the temporary folder
redis_pid=""
postgres_options="${postgres_options:-}" # more of them, for whoever sources this: "-c NAME=VALUE"

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# PostgreSQL refuses to run as root.
as_postgres() {
    if is_root; then runuser -u postgres -- "$@"; else "$@"; fi
}

start_postgres() {
    local bin data="$home/postgres" port
    bin=$(pg_bin)
    mkdir "$data"
    if is_root; then
        id postgres >/dev/null 2>&1 || die "there is no user postgres to run PostgreSQL as"
        chown postgres "$data"
    fi
    as_postgres "$bin/initdb" --pgdata "$data/data" --username postgres --auth trust \
        --encoding UTF8 --locale C --no-sync >"$home/initdb.log" 2>&1 \
        || { cat "$home/initdb.log" >&2; die "initdb failed"; }
    # Another program can take the port between its choice and its use, hence the attempts.
    for _ in 1 2 3; do
        port=$(free_port)
        if as_postgres "$bin/pg_ctl" start --silent --wait --pgdata "$data/data" --log "$data/log" \
            --options "-p $port -k $data -c listen_addresses=127.0.0.1 -c max_connections=300 $postgres_options" \
            >/dev/null; then
            export STOCKHOLD_TEST_PG="postgres://postgres@127.0.0.1:$port/postgres"
            return
        fi
    done
    cat "$data/log" >&2
    die "PostgreSQL did not start"
}

start_redis() {
    local port
    for _ in 1 2 3; do
        port=$(free_port)
        # A session of its own: an interrupt must end the tests first, and this at the end.
        setsid redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$home" \
            >"$home/redis.log" 2>&1 &
        redis_pid=$!
        for _ in $(seq 100); do
            if redis_answers "$port"; then
                export STOCKHOLD_TEST_REDIS="redis://127.0.0.1:$port"
                return
            fi
            kill -0 "$redis_pid" 2>/dev/null || break
            sleep 0.1
        done
        stop_redis
    done
    cat "$home/redis.log" >&2
    die "Redis did not start"
}

redis_answers() {
    local answer=""
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&3
    read -r -t 1 answer <&3 || true
    exec 3>&-
    [ "${answer%$'\r'}" = "+PONG" ]
}

stop_redis() {
    [ -n "$redis_pid" ] || return 0
    kill "$redis_pid" 2>/dev/null || true
    wait "$redis_pid" 2>/dev/null || true
    redis_pid=""
}

start_services() {
    say "starting PostgreSQL and Redis"
    home=$(mktemp -d "${TMPDIR:-/tmp}/stockhold.XXXXXX")
    chmod 755 "$home" # PostgreSQL may run as another user
    start_postgres
    start_redis
}

# Ends what was started, and the program with its exit code.
stop_services() {
    local code=$?
    trap - EXIT INT TERM HUP
    stop_redis
    if [ -n "$home" ]; then
        if [ -e "$home/postgres/data/postmaster.pid" ]; then
            as_postgres "$(pg_bin)/pg_ctl" stop --silent --mode immediate --pgdata "$home/postgres/data" \
                >/dev/null 2>&1 || true
        fi
        rm -rf "$home"
    fi
    exit "$code"
}

trap stop_services EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
