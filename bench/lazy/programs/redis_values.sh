# Runs redis-server with values of 400 kB that come and go; the server's memory is what is measured.
#
#     redis_values.sh REQUESTS
set -eu
socket=/tmp/redis-socket
redis-server --port 0 --unixsocket "$socket" --save "" --appendonly no --dir /tmp --logfile /tmp/redis-log &
server=$!
tries=0
until redis-cli -s "$socket" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -le 200 ] || { cat /tmp/redis-log; exit 1; }
    sleep 0.05
done
redis-benchmark -s "$socket" -q -c 4 -n "$1" -d 400000 -t set,get
redis-cli -s "$socket" shutdown nosave || true
wait "$server"
