"""The wheel on a bare Debian 12 and 13: from nothing to the first answer, and away again.

Debian 11 is too old for the wheel and for the Debian package, but not for the static agent.
"""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from roots import PYTHONS, REPOSITORY, bare, built, files, inside, refusal, with_wheels

pytestmark = pytest.mark.skipif(refusal() is not None, reason=refusal() or "")
PIPX = ("ca-certificates", "pipx")
MACHINES = {"x86_64": 62, "aarch64": 183}
"""The processors of the wheels, with their numbers in ELF files (elf.h)."""
KILLD = REPOSITORY / "packaging/killd.toml"


@pytest.fixture
def wheel() -> Path:
    return built("pagewise_*x86_64.whl")


@pytest.mark.parametrize("suite", PYTHONS)
def test_pipx_installs_the_wheel_and_takes_it_away(suite: str, wheel: Path, tmp_path: Path) -> None:
    with bare(suite, PIPX, tmp_path) as root:
        with_wheels(root, wheel, suite)
        before = files(root)
        inside(root, f"pipx install /wheels/{wheel.name}")
        bin = "/root/.local/bin"
        shown = inside(root, f"cd /tmp && {bin}/pagewise demo --report demo.html")
        assert "hierarchical" in shown and (root / "tmp/demo.html").stat().st_size > 100_000
        versions = json.loads(inside(root, f"{bin}/pagewise --version --json"))
        assert versions["front"] == {"name": "pagewise-memory", "version": versions["core"]}
        assert versions["agent"]["version"] == versions["core"]
        assert "tracefs" in inside(root, f"{bin}/pagewise-agent doctor || true")
        inside(root, f"{bin}/pagewise-agent lazy -- true")
        examples = json.loads(inside(root, f"{bin}/pagewise list examples --json"))["examples"]
        recording = next(row["summary"] for row in examples if row["name"] == "phone-1g-long")
        assert "busiest 1 % of pages" in inside(root, f"{bin}/pagewise analyze {recording}")
        inside(root, "pipx uninstall pagewise-memory")
        left = {path for path in files(root) - before if not path.startswith("root/.local")}
        assert left == set()
        assert not list(root.glob("root/.local/bin/pagewise*"))
        assert not list(root.glob("root/.local/**/pagewise*"))


@pytest.mark.parametrize("suite", PYTHONS)
def test_a_virtual_environment_takes_the_wheel(suite: str, wheel: Path, tmp_path: Path) -> None:
    with bare(suite, ("ca-certificates", "python3-venv"), tmp_path) as root:
        with_wheels(root, wheel, suite)
        inside(
            root,
            f"python3 -m venv /opt/pagewise && "
            f"/opt/pagewise/bin/pip install -q /wheels/{wheel.name}",
        )
        assert "policies" in inside(root, "/opt/pagewise/bin/pagewise list policies")
        plugin = "from pagewise.capture.run import PLUGIN; print(PLUGIN.exists())"
        assert inside(root, f"/opt/pagewise/bin/python -c '{plugin}'").strip() == "True"


def test_the_data_package_adds_the_other_examples(wheel: Path, tmp_path: Path) -> None:
    data = built("*_examples-*.whl")
    name = data.name.split("-")[0].replace("_", "-")
    command, folder = "/opt/pagewise/bin/pagewise", "lib/python3.11/site-packages/pagewise"
    curves = f"{command} curves examples/page-size/photo.pwf --page-sizes 4KiB --frames 1MiB"

    def listed() -> int:
        return len(json.loads(inside(root, f"{command} list examples --json"))["examples"])

    with bare("bookworm", ("ca-certificates", "python3-venv"), tmp_path) as root:
        with_wheels(root, wheel)
        shutil.copy(data, root / "wheels")
        pip = "/opt/pagewise/bin/pip"
        inside(root, f"python3 -m venv /opt/pagewise && {pip} install -q /wheels/{wheel.name}")
        before = files(root)
        assert listed() == 3
        refused = inside(root, f"cd /tmp && {curves} 2>&1", status=3)
        assert f"in the package {name}, which is not installed" in refused
        inside(root, f"{pip} install -q {name}")
        assert listed() == 6
        answer = json.loads(inside(root, f"cd /opt/pagewise/{folder} && {curves} --json"))
        assert len(answer) > 3
        refused = inside(root, f"cd /tmp && {curves} 2>&1", status=3)
        assert f"this example is /opt/pagewise/{folder}/examples/page-size/photo.pwf" in refused
        inside(root, f"{pip} uninstall -q --yes {name}")
        # pip leaves an empty folder where there were only folders.
        assert not {path for path in files(root) - before if not (root / path).is_dir()}
        assert listed() == 3


def test_debian_11_refuses_the_packages_and_runs_the_static_agent(
    wheel: Path, tmp_path: Path
) -> None:
    package, agent = built("pagewise-agent_*_amd64.deb"), built("pagewise-agent-x86_64")
    with bare("bullseye", ("ca-certificates", "python3-venv"), tmp_path) as root:
        (root / "given").mkdir()
        for file in (wheel, package, agent):
            shutil.copy(file, root / "given")
        before = files(root)
        inside(root, "python3 -m venv /opt/pagewise")
        refused = inside(root, f"/opt/pagewise/bin/pip install /given/{wheel.name} 2>&1", status=1)
        assert "is not a supported wheel on this platform" in refused, refused
        refused = inside(root, f"dpkg --install /given/{package.name} 2>&1", status=1)
        assert "libc6 (>= 2.34)" in refused, refused
        inside(root, "dpkg --purge pagewise-agent && rm -r /opt/pagewise")
        assert files(root) - before == set()
        inside(root, "install -m 755 /given/pagewise-agent-x86_64 /usr/local/bin/pagewise-agent")
        assert "pagewise-agent" in inside(root, "pagewise-agent --version")
        findings = json.loads(inside(root, "pagewise-agent doctor --json"))["findings"]
        assert {"btf", "tracefs"} <= {finding["name"] for finding in findings}
        (root / "etc/pagewise.d").mkdir()
        shutil.copy(KILLD, root / "etc/pagewise.d")
        assert "policy" in inside(root, "pagewise-agent killd check")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_wheel_is_small_and_has_nothing_of_this_build(machine: str) -> None:
    wheel = built(f"pagewise_*{machine}.whl")
    assert wheel.stat().st_size <= 25_000_000
    programs = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            assert str(REPOSITORY).encode() not in content, name
            assert b'"serialNumber"' not in content, f"{name}: another number in each build"
            if content.startswith(b"\x7fELF"):
                assert int.from_bytes(content[18:20], "little") == MACHINES[machine], name
                programs += 1
    assert programs == 5, "the module, the agent, two preload libraries, and the capture plugin"
