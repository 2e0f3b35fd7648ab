"""The wheel on a bare Debian 12: from nothing to the first answer, and away again."""

import json
import zipfile
from pathlib import Path

import pytest
from roots import bare, built, files, inside, refusal, with_wheels

pytestmark = pytest.mark.skipif(refusal() is not None, reason=refusal() or "")
PIPX = ("ca-certificates", "pipx")


@pytest.fixture
def wheel() -> Path:
    return built("pagewise_*x86_64.whl")


def test_pipx_installs_the_wheel_and_takes_it_away(wheel: Path, tmp_path: Path) -> None:
    with bare("bookworm", PIPX, tmp_path) as root:
        with_wheels(root, wheel)
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


def test_a_virtual_environment_takes_the_wheel(wheel: Path, tmp_path: Path) -> None:
    with bare("bookworm", ("ca-certificates", "python3-venv"), tmp_path) as root:
        with_wheels(root, wheel)
        inside(
            root,
            f"python3 -m venv /opt/pagewise && "
            f"/opt/pagewise/bin/pip install -q /wheels/{wheel.name}",
        )
        assert "policies" in inside(root, "/opt/pagewise/bin/pagewise list policies")
        plugin = "from pagewise.capture.run import PLUGIN; print(PLUGIN.exists())"
        assert inside(root, f"/opt/pagewise/bin/python -c '{plugin}'").strip() == "True"


def test_the_wheel_is_small_and_names_no_folder_of_this_machine(wheel: Path) -> None:
    assert wheel.stat().st_size <= 25_000_000
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            assert str(Path(__file__).parents[2]).encode() not in content, name
