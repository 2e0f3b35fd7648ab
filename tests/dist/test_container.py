"""The image of packaging/Containerfile, built by podman on a root of Debian 12."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from roots import HUNG_S, REPOSITORY, bare, built, refusal, with_wheels

NAME = "localhost/pagewise-test"
BASE = f"{NAME}-base"
PYTHON = ("ca-certificates", "python3-venv")
RUN = ("run", "--rm", "--network", "none", "--ulimit", "nofile=1024", "--ulimit", "nproc=1024")
"""No command needs a network; a bridge needs modules of the kernel. By default podman raises the
limits, which needs CAP_SYS_RESOURCE."""
PODMAN = """\
mountpoint -q /sys/fs/cgroup/unified && umount /sys/fs/cgroup/unified
exec podman "$@"
"""
"""Runs podman where only cgroups of version 1 are mounted: crun refuses a host with controllers of
both versions."""


def lacking() -> str | None:
    if reason := refusal():
        return reason
    return None if shutil.which("podman") else "podman is not installed: tools/dist_setup.sh"


pytestmark = pytest.mark.skipif(lacking() is not None, reason=lacking() or "")


def podman(*words: object) -> str:
    command = ["unshare", "--mount", "sh", "-c", PODMAN, "podman", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    wheel, folder = built("pagewise_*x86_64.whl"), tmp_path_factory.mktemp("image")
    (folder / "context").mkdir()
    shutil.copy(wheel, folder / "context")
    with bare("bookworm", PYTHON, folder) as root:
        with_wheels(root, wheel)
        shutil.move(root / "wheels", folder / "wheels")
        archive = folder / "base.tar"
        subprocess.run(["tar", "-cf", archive, "-C", root, "."], check=True, timeout=HUNG_S)
    try:
        podman("import", "--quiet", archive, BASE)
        podman(
            *("build", "--quiet", "--network", "none", "--tag", NAME),
            *("--build-arg", f"BASE={BASE}"),
            *("--build-arg", "PIP_OPTIONS=--no-index --find-links=/wheels"),
            *("--volume", f"{folder}/wheels:/wheels:ro"),
            *("--file", REPOSITORY / "packaging/Containerfile", folder / "context"),
        )
        yield NAME
    finally:
        for name in (NAME, BASE):
            subprocess.run(["podman", "rmi", "--force", name], capture_output=True, timeout=HUNG_S)


def test_the_image_answers_as_a_user_without_rights(image: str, tmp_path: Path) -> None:
    assert "Usage: pagewise" in podman(*RUN, image)
    versions = json.loads(podman(*RUN, image, "--version", "--json"))
    assert versions["front"]["version"] == versions["core"]
    user = podman(*RUN, "--entrypoint", "id", image, "-un")
    assert user.strip() == "pagewise"
    recording = REPOSITORY / "examples/phone.perfetto-trace.gz"
    shutil.copy(recording, tmp_path)
    tmp_path.chmod(0o755)
    mounted = f"{tmp_path}:/data:ro"
    answer = podman(
        *(*RUN, "--read-only", "--volume", mounted, image),
        *("launches", f"/data/{recording.name}", "--json"),
    )
    assert len(json.loads(answer)["launches"]) == 5


def test_a_report_goes_to_a_folder_of_the_host(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    podman(*RUN, "--volume", f"{tmp_path}:/work", image, "demo", "--report", "demo.html")
    assert (tmp_path / "demo.html").stat().st_size > 100_000
