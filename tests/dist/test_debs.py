"""The Debian packages: lintian; installation, upgrade, removal and purge in a bare Debian 12
and 13."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from roots import HUNG_S, PYTHONS, REPOSITORY, bare, built, files, inside, refusal

pytestmark = pytest.mark.skipif(refusal() is not None, reason=refusal() or "")
ARCHITECTURES = ("amd64", "arm64", "armhf")
SETTINGS = {
    "etc/pagewise.d/killd.toml",
    "etc/pagewise.d/relaunchd/relaunchd.toml",
    "etc/pagewise.d/swapd.conf",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lintian_finds_no_error_in_the_agent(architecture: str) -> None:
    lintian(built(f"pagewise-agent_*_{architecture}.deb"))


def test_lintian_finds_no_error_in_the_desk() -> None:
    lintian(built("pagewise-memory_*_amd64.deb"))


def lintian(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed: tools/dist_setup.sh")
    command = ["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)
    errors = [line for line in done.stdout.splitlines() if line.startswith("E:")]
    assert done.returncode == 0 and not errors, "\n".join(errors) or done.stderr


@pytest.mark.parametrize("suite", PYTHONS)
def test_the_agent_comes_and_goes(suite: str, tmp_path: Path) -> None:
    package = built("pagewise-agent_*_amd64.deb")
    with bare(suite, (), tmp_path) as root:
        before = files(root)
        shutil.copy(package, root / "tmp")
        inside(root, f"dpkg --install /tmp/{package.name}")
        assert "pagewise-agent" in inside(root, "pagewise-agent --version")
        inside(root, "pagewise-agent lazy -- /bin/true")
        assert not list((root / "usr/lib").glob("libpagewise*"))
        assert (root / "etc/pagewise.d/killd.toml").exists()
        assert not list(root.glob("etc/systemd/system/*.wants/pagewise*")), "a service is enabled"
        # An upgrade keeps what the user changed.
        (root / "etc/pagewise.d/swapd.conf").write_text("OPTIONS=--mine\n")
        inside(root, f"dpkg --install /tmp/{package.name}")
        assert (root / "etc/pagewise.d/swapd.conf").read_text() == "OPTIONS=--mine\n"
        inside(root, "dpkg --remove pagewise-agent")
        assert {path for path in files(root) - before if (root / path).is_file()} == SETTINGS
        inside(root, "dpkg --purge pagewise-agent")
        assert files(root) - before == set()


@pytest.mark.parametrize("suite", PYTHONS)
def test_the_desk_comes_and_goes(suite: str, tmp_path: Path) -> None:
    package = built("pagewise-memory_*_amd64.deb")
    with bare(suite, ("python3-numpy", "python3-scipy"), tmp_path) as root:
        before = files(root)
        shutil.copy(package, root / "tmp")
        inside(root, f"dpkg --install /tmp/{package.name}")
        versions = json.loads(inside(root, "pagewise --version --json"))
        assert versions["front"] == {"name": "pagewise-memory", "version": versions["core"]}
        assert versions["agent"] is None
        shown = inside(root, "cd /tmp && pagewise demo --report demo.html")
        assert "hierarchical" in shown
        assert (
            "pagewise advise"
            in (root / "usr/share/bash-completion/completions/pagewise").read_text()
        )
        completed = "COMP_WORDS=(pagewise adv); COMP_CWORD=1; _pagewise; echo ${COMPREPLY[*]}"
        sourced = ". /usr/share/bash-completion/completions/pagewise"
        assert inside(root, f"bash -c '{sourced}; {completed}'").strip() == "advise"
        inside(root, f"dpkg --install /tmp/{package.name}")
        inside(root, "dpkg --purge pagewise-memory")
        assert files(root) - before == set()


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    first = built("pagewise-agent_*_amd64.deb")
    script = [REPOSITORY / ".venv/bin/python", REPOSITORY / "packaging/deb.py"]
    agent, libraries = built("pagewise-agent-x86_64"), REPOSITORY / "build/preload/x86_64"
    if not libraries.is_dir():
        pytest.skip("the preload libraries are not built: make dist-debs")
    sums = set()
    for number in range(2):
        output = tmp_path / str(number)
        subprocess.run(
            [*script, "agent", agent, libraries, "amd64", output],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=HUNG_S,
        )
        sums.add(hashlib.sha256((output / first.name).read_bytes()).hexdigest())
    assert len(sums) == 1
