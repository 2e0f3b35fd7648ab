"""The browsers of bench/kernel.py: how a guest prepares for them, and the figures of their runs.

A browser uses this machine's files, which the guest sees read-only, and memory for what it writes.
Each run has a home of its own and a memory cgroup of its own, so that its peak is that of all its
processes. The display, Xvfb, runs without the pool.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "bench" / "lazy" / "programs"
PAGES = ROOT / "build" / "bench-kernel"
"""The pages that the browsers show; not in /tmp, where the guest has its own files."""
MEMORY_MIB = 2048
CLOCK = ("-icount", "sleep=on")
"""While the guest waits, its clock goes on in real time: if it skipped the time, the browsers' time
limits would pass while they wait for this machine's files. Counts are of CPU time, so they do not
change."""
SWIPES, WARM_UPS = 1, 1
"""Swipes beside the last one, which counts too; a swipe takes a minute in a guest."""
OUTPUT = "/tmp/output.png"
"""Where a browser leaves its picture of the page."""

PREPARE = """
mkdir -p /host/dev/shm && mount -t tmpfs none /host/dev/shm || exit 4
mount -t cgroup2 none /sys/fs/cgroup || exit 4
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
chroot /host /usr/bin/env PATH=/usr/bin:/bin Xvfb :9 -screen 0 412x915x24 -nolisten tcp \\
    >/tmp/display 2>&1 &
"""
IN_GROUP = """#!/bin/sh
# Runs a command in a memory cgroup of its own; leaves the most memory of the group in /tmp/peak.
group=/sys/fs/cgroup/browser
rm -rf /tmp/home /tmp/run /tmp/output.png
mkdir -p -m 700 /tmp/home/firefox /tmp/run
cp /firefox.js /tmp/home/firefox/user.js
mkdir $group || exit 1
(echo 0 >$group/cgroup.procs; exec "$@")
status=$?
cat $group/memory.peak >/tmp/peak
echo 1 >$group/cgroup.kill
until rmdir $group 2>/dev/null; do sleep 0.1; done
exit $status
"""
ENVIRONMENT = {
    "HOME": "/tmp/home",
    "PATH": "/usr/bin:/bin",
    "XDG_RUNTIME_DIR": "/tmp/run",
    "DISPLAY": ":9",
    "LANG": "C.UTF-8",
    # There is no message bus: without these, programs wait for one, or start one.
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/tmp/no-bus",
    "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/tmp/no-bus",
    "NO_AT_BRIDGE": "1",
    "GSETTINGS_BACKEND": "memory",
    # Firefox's sandboxes need namespaces, which the guest's kernel does not have.
    "MOZ_DISABLE_CONTENT_SANDBOX": "1",
    "MOZ_DISABLE_GMP_SANDBOX": "1",
    "MOZ_DISABLE_RDD_SANDBOX": "1",
    "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX": "1",
    "MOZ_DISABLE_UTILITY_SANDBOX": "1",
    "MOZ_CRASHREPORTER_DISABLE": "1",
}
FIREFOX_SETTINGS = {
    "app.update.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}
FILES: dict[str, Path | str] = {
    "bin/in_group": IN_GROUP,
    "firefox.js": "".join(
        f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
        for name, value in FIREFOX_SETTINGS.items()
    ),
}

WEBKIT = f"/usr/bin/python3 -B {PROGRAMS}/swipe.py {PAGES}/page.html"
SWIPED = f"{WEBKIT} {SWIPES} {WARM_UPS} {{idle}}"
SWIPED_ONCE = f"{WEBKIT} 0 0 0"
CHROMIUM = (
    "chromium-headless-shell --no-sandbox --disable-gpu --hide-scrollbars --no-first-run"
    " --disable-background-networking --disable-component-update"
    f" --user-data-dir=/tmp/home/chromium --window-size=412,915 --screenshot={OUTPUT}"
    f" file://{PAGES}/work.html"
)
FIREFOX = (
    "firefox-esr --headless --no-remote --profile /tmp/home/firefox --window-size=412,915"
    f" --screenshot {OUTPUT} file://{PAGES}/work.html"
)


def write_pages() -> None:
    """Writes the pages, unless they are there."""
    if (PAGES / "work.html").exists():
        return
    PAGES.mkdir(parents=True, exist_ok=True)
    for source in ("page.py", "work_page.py"):
        subprocess.run([sys.executable, PROGRAMS / source, PAGES], check=True, timeout=600)


def environment() -> str:
    """Words for `env`."""
    return " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())


def around(run: str, number: int) -> list[str]:
    """The lines of the guest's script for run ``number``, whose command is ``run``."""
    return [
        f"grep ^lazy_unmap /proc/vmstat >/result/{number}.before",
        f"in_group {run} >/result/{number} || exit 3",
        f"grep ^lazy_unmap /proc/vmstat >/result/{number}.after",
        f"cp /tmp/figures /result/{number}.tree; cp /tmp/peak /result/{number}.peak",
        f"[ ! -e {OUTPUT} ] || sha256sum <{OUTPUT} >/result/{number}.output",
    ]


def row(results: Path, number: int) -> dict[str, Any]:
    """The figures of run ``number``: of its swipes the median, or of the whole run."""
    tree = json.loads((results / f"{number}.tree").read_text())
    before, after = (_counters(results / f"{number}.{when}") for when in ("before", "after"))
    output = results / f"{number}.output"
    figures: dict[str, Any] = {
        "faults": tree["traps"],
        "instructions": tree["tree_ns"],
        "peak_bytes": int((results / f"{number}.peak").read_text()),
        "idle_bytes": None,
        "premapped_untouched": after["pages_premapped"] - before["pages_premapped"],
        "counters": {name: after[name] - before[name] for name in after},
        "output_sha256": output.read_text().split()[0] if output.exists() else None,
    }
    lines = [
        json.loads(line)
        for line in (results / str(number)).read_text().splitlines()
        if line.startswith("{")
    ]
    if not lines:
        return figures
    session = lines[0] | lines[-1]
    swipes = [*session["swipes"], session["timeline"]]
    return figures | {
        "faults": median(each["traps"] for each in swipes),
        "instructions": round(median(each["busy_s"] for each in swipes) * 1e9),
        "idle_bytes": session["idle_bytes"],
        "run_faults": tree["traps"],
        "run_instructions": tree["tree_ns"],
        "web_peak_bytes": session["peak_bytes"],
        "swipes": [
            {
                "faults": each["traps"],
                "instructions": round(each["busy_s"] * 1e9),
                "response_ns": round(each["response_s"] * 1e9),
                "fault_ns": round(each["fault_s"] * 1e9),
                "call_ns": round(each["call_s"] * 1e9),
                "frames": each["frames"],
                "held_bytes": each["held_bytes"],
            }
            for each in swipes
        ],
    }


def _counters(path: Path) -> dict[str, int]:
    """The pool's counters in a copy of /proc/vmstat, by name without `lazy_unmap_`."""
    lines = path.read_text().replace("lazy_unmap_", "").splitlines()
    return {name: int(count) for name, count in map(str.split, lines)}
