"""The units of killd, relaunchd and swapd under systemd: they start, survive SIGKILL, and end.

In a guest, systemd of a bare Debian 12 is the first process of a PID namespace, with all rights.
"""

import shutil
import subprocess
from pathlib import Path

import guest
import pytest

ROOT = Path(__file__).parents[2]
AGENT = guest.AGENT
PACKAGING = ROOT / "packaging"
SYSTEM = ROOT / "build/roots/bookworm-systemd.tar"
PACKAGES = "systemd,libelf1,zlib1g,procps"
MACHINE = guest.Machine(modules=("nbd",), kernel_arguments="psi=1", memory_mib=768, disk_mib=1024)
BOOT_S = 900
SERVICES = ("killd", "relaunchd", "swapd")
SWAPD = """\
OPTIONS=--size 96MiB --fast 16MiB --slow /var/lib/pagewise/swapd --policy hierarchical --only-swap
"""
CHECK_UNIT = """\
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/check
"""
# What a service leaves while it runs and at the end. Numbers of processes differ from run to run.
CHECK = """\
#!/bin/bash
exec 2>/result/errors
state() {
    systemctl show -p ActiveState -p NRestarts pagewise-$1 | sort
    echo "areas=$(tail -n +2 /proc/swaps | wc -l)"
}
waits_until() {
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    return 1
}
restarted() {
    [ "$(systemctl show -p NRestarts --value pagewise-$1)" -ge 1 ] &&
        systemctl is-active -q pagewise-$1
}
for service in killd relaunchd swapd; do
    systemctl start pagewise-$service
    state $service >/result/$service.started
    kill -9 $(systemctl show -p MainPID --value pagewise-$service)
    waits_until restarted $service
    state $service >/result/$service.killed
    systemctl stop pagewise-$service
    state $service >/result/$service.stopped
    journalctl --no-pager -q -u pagewise-$service >/result/$service.journal
done
ls -A /run/pagewise /var/lib/pagewise >/result/left
pgrep -a pagewise-agent >/result/processes
systemctl exit 0
"""
# A first process that systemd takes for a container's.
SCRIPT = """
for folder in proc sys dev run tmp result; do mkdir -p /disk/$folder; done
mount --bind /result /disk/result
mount --rbind /dev /disk/dev
mount -t sysfs sys /disk/sys
mount -t cgroup2 none /disk/sys/fs/cgroup
mount -t tmpfs run /disk/run
mount -t tmpfs tmp /disk/tmp
cd /
unshare -p -f -m sh -c 'mount -t proc proc /disk/proc &&
    exec env -i container=guest PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    chroot /disk /lib/systemd/systemd --unit=check.service --log-target=console'
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the services left in the guest."""
    guest.need_agent(MACHINE)
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed: tools/dist_setup.sh")
    folder = tmp_path_factory.mktemp("guest")
    system = folder / "system"
    unpack(system)
    shutil.copy(AGENT, system / "usr/bin")
    units = system / "lib/systemd/system"
    for service in SERVICES:
        shutil.copy(PACKAGING / f"pagewise-{service}.service", units)
    settings = system / "etc/pagewise.d"
    (settings / "relaunchd").mkdir(parents=True)
    shutil.copy(PACKAGING / "killd.toml", settings)
    shutil.copy(PACKAGING / "relaunchd.toml", settings / "relaunchd")
    (settings / "swapd.conf").write_text(SWAPD)
    (units / "check.service").write_text(CHECK_UNIT)
    check = system / "check"
    check.write_text(CHECK)
    check.chmod(0o755)
    answer = guest.boot(MACHINE, SCRIPT, {}, folder, timeout_s=BOOT_S, content=system)
    assert (answer.results / "processes").exists(), answer.output + answer.console[-3000:]
    return answer.results


def unpack(system: Path) -> None:
    """A bare Debian with systemd; its archive is kept in build/roots."""
    if not SYSTEM.exists():
        SYSTEM.parent.mkdir(parents=True, exist_ok=True)
        part = SYSTEM.with_name("part-systemd.tar")
        command = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={PACKAGES}"]
        made = subprocess.run(
            [*command, "bookworm", part], capture_output=True, text=True, timeout=600
        )
        if made.returncode != 0:
            pytest.skip(f"mmdebstrap: {made.stderr.strip()[-200:]}")
        part.rename(SYSTEM)
    system.mkdir()
    subprocess.run(
        ["tar", "-xf", SYSTEM, "-C", system, "--exclude=./dev/*"], check=True, timeout=300
    )


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_starts_comes_back_after_sigkill_and_stops(results: Path, service: str) -> None:
    def left(when: str) -> dict[str, str]:
        lines = (results / f"{service}.{when}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    journal = (results / f"{service}.journal").read_text() + (results / "errors").read_text()
    areas = "1" if service == "swapd" else "0"
    assert left("started") == {"ActiveState": "active", "NRestarts": "0", "areas": areas}, journal
    assert left("killed") == {"ActiveState": "active", "NRestarts": "1", "areas": areas}, journal
    stopped = left("stopped")
    assert (stopped["ActiveState"], stopped["areas"]) == ("inactive", "0"), journal


@pytest.mark.slow
def test_the_services_leave_nothing(results: Path) -> None:
    assert (results / "processes").read_text() == ""
    left = (results / "left").read_text().split()
    assert not [name for name in left if name.endswith(".undo") or name == "swapd"], left
