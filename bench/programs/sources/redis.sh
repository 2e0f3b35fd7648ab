# Runs a server and its benchmark on a socket; prints a digest of its data.
set -eu
socket=$PWD/socket
redis-server --port 0 --unixsocket "$socket" --save "" --appendonly no --dir "$PWD" --daemonize no \
    --hz 10 --activedefrag no --enable-debug-command yes --logfile "$PWD/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
ask() { redis-cli -s "$socket" "$@"; }
tries=0
until ask ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ] || ! kill -0 "$server"; then
        echo "no server"
        cat "$PWD/log"
        wait "$server" || echo "server ended with $?"
        exit 1
    fi
    sleep 0.05
done
redis-benchmark -s "$socket" -q -c 20 -n 4000 -d 200 -t set,get,incr,lpush,sadd,hset,mset >/dev/null 2>&1 || echo "benchmark $?"
redis-benchmark -s "$socket" -q -c 4 -n 200 -d 400000 -t set,get >/dev/null 2>&1 || echo "benchmark $?"
ask flushall
for number in $(seq 1 40); do
    head -c $((number * 20000)) /dev/zero | tr '\0' "a" | redis-cli -s "$socket" -x set "key$number" >/dev/null
done
ask eval 'for at = 1, 20000 do redis.call("hset", "hash" .. at % 50, "field" .. at, at * 7919 % 10007) end return redis.call("dbsize")' 0
ask setrange key1 1000000 end
ask bgsave
tries=0
until [ "$(ask info persistence | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p')" = 0 ] || [ "$tries" -gt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
ask info persistence | tr -d '\r' | grep -E '^(rdb_last_bgsave_status|rdb_bgsave_in_progress)'
echo "digest $(ask debug digest)"
echo "allocator $(ask info memory | tr -d '\r' | sed -n 's/^mem_allocator://p')"
ask debug reload
echo "digest $(ask debug digest)"
ask shutdown nosave
trap - EXIT
wait "$server" || echo "server ended with $?"
