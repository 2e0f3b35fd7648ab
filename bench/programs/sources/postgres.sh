# Runs a server and pgbench on its socket, and prints whether the sums agree: postgres.sh BINARIES.
set -eu
data=$PWD/cluster
"$1/pg_ctl" --silent --wait --pgdata="$data" --log="$data/log" \
    --options="-c listen_addresses='' -c unix_socket_directories=$data -c fsync=off -c autovacuum=off -c shared_buffers=32MB -c work_mem=8MB" start
trap '"$1/pg_ctl" --silent --wait --pgdata="$data" --mode=immediate stop 2>/dev/null || true' EXIT
export PGHOST="$data" PGDATABASE=postgres
"$1/pgbench" --quiet --initialize --scale=2 2>/dev/null
"$1/pgbench" --no-vacuum --client=4 --jobs=2 --transactions=200 --random-seed=7 2>&1 |
    grep -E 'actually processed|failed|aborted'
"$1/psql" --no-psqlrc --tuples-only --no-align <<'SQL'
select 'consistent ' || left(((select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
    and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
    and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history))::text, 1);
select count(*) from pgbench_history;
select md5(string_agg(aid::text || filler, ',' order by bid, aid desc)) from pgbench_accounts;
set max_parallel_workers_per_gather = 2;
select count(distinct substr(md5(aid::text), 1, 4)) from pgbench_accounts;
SQL
"$1/pg_ctl" --silent --wait --pgdata="$data" --mode=fast stop
# A session whose client has just gone may still be there when the server stops.
grep -E 'FATAL|PANIC|terminated by signal' "$data/log" | grep -v 'due to administrator command' || echo "log clean"
