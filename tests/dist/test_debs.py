"""The Debian packages: lintian; installation, upgrade, removal and purge in a bare Debian 12
and 13."""

import hashlib
import json
import re
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
ADDED = "# of the next version\n"
ENABLED = "etc/systemd/system/multi-user.target.wants/pagewise-killd.service"
KNOWN_TO_SYSTEMD = "var/lib/systemd/deb-systemd-helper-enabled"
"""Where Debian notes the links of services, to remove them when the package is purged."""
KEEP = "--force-confdef --force-confold"
"""An upgrade without questions keeps the settings that the user changed."""
VERSION = "dpkg-query --show --showformat '${{Version}}' {}"
"""The line of shell that prints the version of an installed package."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lintian_finds_no_error_in_the_agent(architecture: str) -> None:
    lintian(built(f"pagewise-agent_*_{architecture}.deb"))


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_lintian_finds_no_error_in_the_desk(architecture: str) -> None:
    lintian(built(f"pagewise-memory_*_{architecture}.deb"))


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
        enable(root)
        # An upgrade keeps what the user changed, and renews the rest.
        etc = root / "etc/pagewise.d"
        (etc / "swapd.conf").write_text("OPTIONS=--mine\n")
        next_package = newer(package, root / "tmp", ["killd.toml", "swapd.conf"])
        inside(root, f"dpkg {KEEP} --install /tmp/{next_package.name}")
        assert inside(root, VERSION.format("pagewise-agent")).endswith("+next")
        assert (etc / "swapd.conf").read_text() == "OPTIONS=--mine\n"
        assert (etc / "killd.toml").read_text().endswith(ADDED)
        assert (etc / "swapd.conf.dpkg-dist").read_text().endswith(ADDED)
        inside(root, "dpkg --remove pagewise-agent")
        left = {path for path in files(root) - before if not (root / path).is_dir()}
        kept = {*SETTINGS, "etc/pagewise.d/swapd.conf.dpkg-dist", ENABLED}
        assert {path for path in left if not path.startswith(KNOWN_TO_SYSTEMD)} == kept
        inside(root, "dpkg --purge pagewise-agent")
        assert files(root) - before == set()


def enable(root: Path) -> None:
    """What `systemctl enable pagewise-killd` does, which the root lacks."""
    link = root / ENABLED
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/lib/systemd/system/pagewise-killd.service")


def newer(package: Path, folder: Path, settings: list[str]) -> Path:
    """The package as its next version would be, with a line more in each of the settings."""
    tree = folder / "next"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True, timeout=HUNG_S)
    control = tree / "DEBIAN/control"
    text, changes = re.subn(r"(?m)^(Version: .*)$", r"\1+next", control.read_text())
    assert changes == 1
    control.write_text(text)
    for name in settings:
        with (tree / "etc/pagewise.d" / name).open("a") as file:
            file.write(ADDED)
    target = folder / f"{package.stem}-next.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, target]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=HUNG_S)
    shutil.rmtree(tree)
    return target


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
        next_package = newer(package, root / "tmp", [])
        inside(root, f"dpkg --install /tmp/{next_package.name}")
        assert inside(root, VERSION.format("pagewise-memory")).endswith("+next")
        assert "policies" in inside(root, "pagewise list policies")
        inside(root, "dpkg --purge pagewise-memory")
        assert files(root) - before == set()


@pytest.mark.parametrize("name", ["agent", "desk"])
def test_packing_twice_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    script = [REPOSITORY / ".venv/bin/python", REPOSITORY / "packaging/deb.py", name]
    if name == "agent":
        packed = built("pagewise-agent_*_amd64.deb")
        folder = REPOSITORY / "build/preload/x86_64"
        words = [built("pagewise-agent-x86_64"), folder, "amd64"]
    else:
        packed = built("pagewise-memory_*_amd64.deb")
        folder = REPOSITORY / "build/vendored"
        words = [built("pagewise_*x86_64.whl"), folder]
    if not folder.is_dir():
        pytest.skip(f"{folder.relative_to(REPOSITORY)} is not built: make dist-debs")
    sums = set()
    for number in range(2):
        output = tmp_path / str(number)
        subprocess.run(
            [*script, *words, output], check=True, stdout=subprocess.DEVNULL, timeout=HUNG_S
        )
        sums.add(hashlib.sha256((output / packed.name).read_bytes()).hexdigest())
    assert len(sums) == 1
