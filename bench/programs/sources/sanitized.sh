# Runs programs with a sanitizer as children: sanitized.sh FOLDER/%-KIND. Prints the exit status of each.
run() {
    name=$(echo "$pattern" | sed "s/%/$1/")
    shift
    status=0
    "$name" "$@" || status=$?
    echo "$1: status $status"
}
pattern=$1
run blocks 3
run faulty free
run faulty double
run faulty over
run racing ""
