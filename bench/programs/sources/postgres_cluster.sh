# Makes a PostgreSQL cluster: postgres_cluster.sh BINARIES USER FOLDER. The server refuses to run as root.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
mkdir "$place/data"
chown "$2" "$place/data"
setpriv --reuid="$2" --regid="$2" --clear-groups \
    "$1/initdb" --no-sync --auth=trust --locale=C.UTF-8 --pgdata="$place/data" >/dev/null
cp -a "$place/data" "$3"
