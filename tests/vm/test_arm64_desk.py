"""What a new user of an aarch64 machine does: the wheel and the agent's package come and go.

An emulated machine with Debian 12 and its kernel installs what is in dist, without a network. First
it installs its own system, because no program of it can run here.
"""

import json
import subprocess
from pathlib import Path

import guest
import pytest
import roots

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

MACHINE = guest.Machine(
    architecture="arm64",
    suite="bookworm",
    kernel="linux-image-cloud-arm64",
    kernel_arguments="psi=1",
    processors=1,
    memory_mib=2048,
    disk_mib=3072,
)
SYSTEM = ("?essential", "usr-is-merged", "python3-venv")
"""The packages of the machine."""
EXAMPLE = "examples/phone-1g/phone-1g.pgr"
PAGEWISE = guest.AGENT.with_name("pagewise")
BOOT_S = 2400
SCRIPT = f"""
mount -t tracefs none /sys/kernel/tracing
mount -t cgroup2 none /sys/fs/cgroup
for folder in proc sys dev; do mount -o rbind /$folder /disk/$folder; done

# Runs a line as root of the Debian system, and keeps its output, its status and its time.
observe() {{
    begun=$(cut -d ' ' -f 1 /proc/uptime)
    chroot /disk /usr/bin/env -i PATH={roots.PATH} HOME=/root LANG=C.UTF-8 PIP_NO_INDEX=1 \\
        DEBIAN_FRONTEND=noninteractive PIP_ROOT_USER_ACTION=ignore PIP_FIND_LINKS=/wheels \\
        sh -c "$2" >/result/$1.json 2>/result/$1.errors
    echo $? >/result/$1.status
    echo $1 $begun $(cut -d ' ' -f 1 /proc/uptime) >>/result/times
}}

observe system 'dpkg --install --force-depends --force-unsafe-io /var/cache/apt/archives/*.deb &&
    dpkg --audit'
observe before 'find / -xdev'
observe environment 'python3 -m venv /opt/pagewise'
observe installed '/opt/pagewise/bin/pip install /wheels/pagewise_*.whl'
observe front '/opt/pagewise/bin/pagewise --version --json'
observe examples '/opt/pagewise/bin/pagewise list examples --json'
observe analysis 'cd /opt/pagewise/lib/python3.11/site-packages/pagewise &&
    /opt/pagewise/bin/pagewise analyze {EXAMPLE} --json'
observe demo 'cd /tmp && /opt/pagewise/bin/pagewise demo && test -s report.html'
observe uninstalled '/opt/pagewise/bin/pip uninstall --yes pagewise-memory'
observe left 'find /opt/pagewise -name "*pagewise*"'
observe removed 'rm -r /opt/pagewise'
observe agent 'dpkg --install /wheels/pagewise-agent_*.deb && pagewise-agent --version'
observe doctor 'pagewise-agent doctor --json'
observe recording 'pagewise-agent record --swap --launches -o /tmp/work.pgr --for 2s --json'
observe purged 'dpkg --purge pagewise-agent'
observe after 'find / -xdev'
"""


def refusal() -> str | None:
    """Why the machine cannot be emulated here; None if it can."""
    return roots.refusal() or guest.refusal(MACHINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands printed on the machine."""
    wheel = roots.built("pagewise_*aarch64.whl")
    package = roots.built("pagewise-agent_*_arm64.deb")
    if reason := refusal():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("desk")
    (folder / "disk").mkdir()
    with roots.bare("bookworm", SYSTEM, folder / "disk", "arm64") as root:
        roots.with_wheels(root, wheel, "bookworm", "aarch64")
        subprocess.run(["cp", package, root / "wheels"], check=True, timeout=roots.HUNG_S)
        answer = guest.boot(MACHINE, SCRIPT, {}, folder, timeout_s=BOOT_S, content=root)
    print((answer.results / "times").read_text())
    assert answer.status == 0, answer.output
    return answer.results


def printed(results: Path, name: str) -> str:
    """What a line printed that must have succeeded."""
    output = (results / f"{name}.json").read_text()
    errors = (results / f"{name}.errors").read_text()
    assert (results / f"{name}.status").read_text() == "0\n", f"{output[-2000:]}\n{errors}"
    return output


def test_the_machine_installs_its_system(results: Path) -> None:
    assert "Setting up python3-venv" in printed(results, "system")


def test_the_wheel_is_installed_and_has_examples(results: Path) -> None:
    assert "Successfully installed" in printed(results, "installed")
    versions = guest.answered(results, "front")
    assert versions["front"]["version"] == versions["core"] == versions["agent"]["version"]
    rows = guest.answered(results, "examples")["examples"]
    assert EXAMPLE.split("/")[1] in {row["name"] for row in rows}


def here(*words: str | Path) -> str:
    """What `pagewise` of this machine prints."""
    command = [PAGEWISE, *words]
    done = subprocess.run(
        command, cwd=roots.REPOSITORY, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout


def test_the_answers_are_those_of_this_machine(results: Path, tmp_path: Path) -> None:
    answer = printed(results, "analysis")
    assert json.loads(answer)["accesses"] > 0
    assert answer == here("analyze", EXAMPLE, "--json")
    demo = printed(results, "demo").split("The report, for a browser")[0]
    assert "hierarchical" in demo
    assert demo == here("demo", "--report", tmp_path / "demo.html").split("The report, for a")[0]


def test_pip_takes_all_of_the_wheel_away(results: Path) -> None:
    printed(results, "uninstalled")
    assert printed(results, "left").split() == ["/opt/pagewise"]


def test_the_agent_of_the_package_answers(results: Path) -> None:
    assert "pagewise-agent " in printed(results, "agent").splitlines()[-1]
    report = guest.answered(results, "doctor")
    assert report["kernel"].endswith("-arm64"), report["kernel"]
    found = {finding["name"]: finding for finding in report["findings"]}
    for name in ("tracefs", "btf", "psi", "record --swap", "record --launches", "killtrace"):
        assert found[name]["is_granted"], found[name]
    recorded = guest.answered(results, "recording")
    assert (recorded["backend"], recorded["lost"], recorded["failure"]) == ("bpf", 0, None)


def test_nothing_is_left_in_the_end(results: Path) -> None:
    printed(results, "purged")
    before, after = (set(printed(results, name).splitlines()) for name in ("before", "after"))
    passing = tuple(f"/{folder}/" for folder in roots.PASSING)
    left = {path for path in after - before if not path.startswith(passing)}
    assert left == set()
