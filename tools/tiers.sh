#!/bin/sh
# Runs the benches, plans and studies of swapd and relaunchd, all but the hours of random load; under an hour as
# root. Says at the end which of them missed a target or failed, not which targets the runs do not decide, and fails
# if the machine is not as it was.
# Usage: tools/tiers.sh OUT
set -u
cd "$(dirname "$0")/.."
out=${1:?usage: tools/tiers.sh OUT}
python=.venv/bin/python
emmc="--emulate emmc-5.1"
mkdir -p "$out"
missed="$out/missed.txt"
: > "$missed"

# What the commands below change while they run.
state() {
    echo "swap areas:"; tail -n +2 /proc/swaps | cut -d ' ' -f 1 | sort
    echo "block devices:"; for device in /sys/block/*; do echo "${device##*/} $(cat "$device/ro" "$device/size" | xargs)"; done
    echo "FUSE mounts:"; grep -E ' fuse|pagewise' /proc/self/mountinfo | cut -d ' ' -f 5 | sort
    echo "cgroups:"; find /sys/fs/cgroup -maxdepth 3 -type d -name 'pagewise*' | sort
    echo "undo logs:"; find /run/pagewise -type f ! -name '*.lock' | sort
    echo "processes:"; ps -e -o stat=,comm= | grep -v '^Z' | grep 'pagewise-agent' | sort
    echo "settings:"; grep . /proc/sys/vm/swappiness /proc/sys/vm/page-cluster /proc/sys/kernel/task_delayacct \
        /sys/module/zswap/parameters/* /sys/kernel/mm/transparent_hugepage/enabled
} 2> /dev/null

compared() {
    state > "$out/after.txt"
    if ! diff "$out/before.txt" "$out/after.txt"; then
        echo "the machine is not as it was: < before, > after"
        exit 1
    fi
    echo "the machine is as it was: $out/before.txt and after.txt are equal"
}

step() {
    echo "== $*"
    "$@" || echo "status $?: $*" >> "$missed"
}

# Studies the runs that can carry a verdict.
study() {
    name=$1 report=$2
    shift 2
    for word in "$@"; do
        shift
        if [ -f "$word/run.toml" ] && ! grep -q '^valid = true' "$word/run.toml"; then
            echo "left out: $word, whose run.toml says why it can carry no verdict"
        else
            set -- "$@" "$word"
        fi
    done
    step .venv/bin/pagewise study "$@" -o "$out/$name/study" --report "$out/$report.html" --force
}

state > "$out/before.txt"
trap 'compared; exit 130' INT TERM
step $python bench/swapd.py faults idle kills --kills 60
step $python bench/swapd_vm.py --rounds 1
step $python bench/compressed.py "$out/compressed" --repeats 1
step $python bench/tiers.py "$out/policies"
step $python bench/tiers.py "$out/sizes" --policy nvm-cache --policy kill \
    --fast 64MiB --fast 256MiB --fast 2GiB --repeats 1
step $python bench/tiers.py "$out/emmc" --plan multiswap-1 $emmc --repeats 1
step $python bench/relaunch.py "$out/prefetch" --order address --order use
step $python bench/relaunch.py "$out/prefetch-emmc" $emmc --repeats 2
study policies multiswap multiswap --live "$out"/policies/*-[0-9]
study emmc multiswap-emmc multiswap --live "$out"/emmc/*-[0-9]
study sizes nvm-cache nvm-cache --live "$out"/sizes/*-[0-9]
for order in address use; do
    study "prefetch-$order" "relaunch-$order" relaunch "$out"/prefetch/without-[0-9] "$out"/prefetch/with-"$order"-[0-9]
done
study prefetch-emmc relaunch-emmc relaunch "$out"/prefetch-emmc/*-[0-9]

if [ -s "$missed" ]; then
    echo "missed a target, or failed:"
    cat "$missed"
fi
compared
