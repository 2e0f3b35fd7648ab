"""swapd --serve below an ext4 file system: contents, cold reads, kills, refusals.

Needs root, FUSE, loop devices and ext4's tools; a skipped test says what is missing.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, device_of, refusal
from groups import HANGS_AFTER_S, MIB
from guards import guard_of
from test_swapd import folder, loop_device, result_of
from waiting import is_running

__all__ = ["folder"]

MISSING = [name for name in ("mkfs.ext4", "e2fsck", "debugfs") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING) or refusal("fuse-loop") is not None,
    reason=f"{MISSING} {refusal('fuse-loop')}",
)
LOGS = Path("/run/pagewise")
FAST = ["--fast", "16MiB"]
FILES, FILE_BYTES = 12, 400_000
"""All of them fit into the fast tier."""


def logs() -> set[str]:
    return {path.name for path in LOGS.glob("swapd-*.undo")}


def run(*words: object) -> str:
    """The output of a command, which succeeds."""
    ran = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def file_system(path: Path) -> Path:
    """An image with an empty file system whose blocks have 4 KiB."""
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 64 * MIB)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", path)
    return path


def checked(image: Path) -> None:
    """Fails if the file system is damaged."""
    run("e2fsck", "-f", "-n", image)


@contextlib.contextmanager
def serving(content: object, *more: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server, and its device."""
    words = [str(AGENT), "swapd", "--serve", str(content), *FAST, "--verify", *more]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield server, device_of(server)
    finally:
        server.terminate()


@contextlib.contextmanager
def mounted(device: object, point: Path) -> Iterator[Path]:
    point.mkdir()
    run("mount", device, point)
    try:
        yield point
    finally:
        run("umount", point)
        point.rmdir()


def flushes(device: str) -> int:
    """Flushes of a block device so far."""
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[15])


def fill(point: Path, seed: int) -> dict[str, str]:
    """Writes files; returns a hash of each."""
    noise = random.Random(seed)
    hashes = {}
    for number in range(FILES):
        content = noise.randbytes(FILE_BYTES)
        (point / f"{seed}-{number}").write_bytes(content)
        hashes[f"{seed}-{number}"] = hashlib.sha256(content).hexdigest()
    return hashes


def hashes_of(point: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in point.iterdir()
        if path.is_file()
    }


def test_a_synced_file_is_on_the_device_and_the_device_was_flushed(folder: Path) -> None:
    point = folder / "mnt"
    with loop_device(folder, 64) as below:
        run("mkfs.ext4", "-q", "-F", "-b", "4096", below)
        with serving(below) as (server, device):
            with mounted(device, point):
                (point / "file").write_bytes(b"synced" * 1000)
                before = flushes(below)
                with (point / "file").open("r+") as file:
                    os.fsync(file.fileno())
                assert flushes(below) > before
                # Still mounted: what the device has now is what a loss of power would leave.
                shutil.copy(folder / "disk", folder / "left")
            server.terminate()
            server.communicate(timeout=HANGS_AFTER_S)
        with mounted(folder / "left", point):
            assert (point / "file").read_bytes() == b"synced" * 1000
    (folder / "left").unlink()
    (folder / "disk").unlink()


@pytest.mark.parametrize("place", ["file", "device"])
def test_a_file_system_keeps_its_files_and_its_third_cold_read_is_quick(
    folder: Path, place: str
) -> None:
    before, point, sock = logs(), folder / "mnt", folder / "sock"
    with contextlib.ExitStack() as stack:
        if place == "device":
            content: object = stack.enter_context(loop_device(folder, 64))
            run("mkfs.ext4", "-q", "-F", "-b", "4096", content)
        else:
            content = file_system(folder / "disk")
        with serving(content, "--socket", str(sock)) as (server, device):
            with mounted(device, point):
                written = fill(point, 1)
            # What was written counts as no read, so the first round comes from the device.
            slow = []
            for _ in range(3):
                with mounted(device, point):
                    begun = result_of(sock)
                    assert hashes_of(point) == written
                    ended = result_of(sock)
                slow.append(ended["slow"]["reads"] - begun["slow"]["reads"])
            pages = FILES * FILE_BYTES // 4096
            assert slow[0] >= pages and slow[1] >= pages and slow[2] < pages // 20, slow
            # A new content is what the next read gives, and what the device has.
            with mounted(device, point):
                assert hashes_of(point) == written
                written |= fill(point, 1) | fill(point, 2)
            with mounted(device, point):
                assert hashes_of(point) == written
            report = result_of(sock)
            assert report["serves"] == str(content) and report["size_bytes"] == 64 * MIB
            assert report["fast"]["reads"] > pages and report["slow"]["writes"] > 2 * pages
            assert report["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
            assert 0 < report["fast_pages_used"] <= 16 * MIB // 4096
            server.terminate()
            output, _ = server.communicate(timeout=HANGS_AFTER_S)
            assert server.returncode == 0 and "promotions" in output
        checked(Path(str(content)))
        with mounted(content, point):
            assert hashes_of(point) == written
    (folder / "disk").unlink()
    assert logs() == before and list(folder.iterdir()) == []


def test_it_serves_on_while_its_device_is_mounted(folder: Path) -> None:
    before, image, point = logs(), file_system(folder / "disk"), folder / "mnt"
    with serving(image) as (server, device):
        assert server.stderr
        with mounted(device, point):
            server.terminate()
            line = next(line for line in server.stderr if "refuses" not in line)
            assert f"{device}: is mounted at {point}" in line and "goes on serving" in line
            written = fill(point, 3)
            os.sync()
            assert server.poll() is None
        server.communicate(timeout=HANGS_AFTER_S)
        assert server.returncode == 0
    checked(image)
    with mounted(image, point):
        assert hashes_of(point) == written
    image.unlink()
    assert logs() == before


def test_a_guard_takes_over_and_no_file_is_lost(folder: Path) -> None:
    before, image, point = logs(), file_system(folder / "disk"), folder / "mnt"
    with serving(image) as (server, device):
        assert server.stderr
        successor = guard_of(server.pid)
        with mounted(device, point):
            written = fill(point, 4)
            server.kill()
            line = next(line for line in server.stderr if "was killed" in line)
            if f"serves {device}" not in line:
                pytest.skip(line)
            written |= fill(point, 5)
        for _ in range(3):
            with mounted(device, point):
                assert hashes_of(point) == written
        os.kill(successor, signal.SIGTERM)
        output, _ = server.communicate(timeout=HANGS_AFTER_S)
        assert "fast tier: " in output and "fast tier: 0 reads" not in output
        late = time.monotonic() + HANGS_AFTER_S
        while is_running(successor) and time.monotonic() < late:
            time.sleep(0.01)
    checked(image)
    image.unlink()
    assert logs() == before


def test_a_kill_of_server_and_guard_loses_nothing_that_was_synced(folder: Path) -> None:
    before, image, point = logs(), file_system(folder / "disk"), folder / "mnt"
    with serving(image) as (server, device), mounted(device, point):
        written = fill(point, 6)
        run("sync", "-f", point)
        assert hashes_of(point) == written
        os.kill(guard_of(server.pid), signal.SIGKILL)
        server.kill()
        server.communicate(timeout=HANGS_AFTER_S)
        # Nothing answers any more: reads fail, and give no other data.
        run("sh", "-c", "echo 1 >/proc/sys/vm/drop_caches")
        with pytest.raises(OSError):
            hashes_of(point)
    with serving(image) as (server, device):
        with mounted(device, point):
            assert hashes_of(point) == written
        server.terminate()
        server.communicate(timeout=HANGS_AFTER_S)
    checked(image)
    image.unlink()
    assert logs() == before


def refused(*words: str) -> str:
    """The message of a server that does not start."""
    answer = subprocess.run(
        [str(AGENT), "swapd", *words], capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert answer.returncode in (2, 3), answer.stdout
    return answer.stderr


@pytest.mark.parametrize(
    "more",
    [
        ["--size", "1GiB"],
        ["--slow", "/nonexistent"],
        ["--priority", "3"],
        ["--encrypt"],
        ["--only-swap"],
        ["--record", "/nonexistent/a"],
        ["--moves", "/nonexistent/b"],
    ],
)
def test_options_of_swap_areas_are_refused(more: list[str]) -> None:
    assert "cannot be used with" in refused("--serve", "/nonexistent", *FAST, *more)


def test_what_cannot_be_served_is_refused_and_unchanged(folder: Path) -> None:
    before, image, point = logs(), file_system(folder / "disk"), folder / "mnt"
    content = image.read_bytes()
    serve = ["--serve", str(image), *FAST]
    assert "--through zram cannot do --serve" in refused(*serve, "--through", "zram")
    assert "a served device cannot do priority" in refused(*serve, "--policy", "priority")
    assert "admit_at=swapout" in refused(*serve, "--policy", "nvm-cache")
    assert "nonexistent" in refused("--serve", "/nonexistent", *FAST)
    assert "neither a block device nor a file" in refused("--serve", "/dev/zero", *FAST)
    os.mkfifo(folder / "pipe")
    assert "neither a block" in refused("--serve", str(folder / "pipe"), *FAST)
    (folder / "pipe").unlink()
    (folder / "odd").write_bytes(bytes(4097))
    assert "a multiple of 4096" in refused("--serve", str(folder / "odd"), *FAST)
    (folder / "odd").unlink()
    other = folder / "other"
    other.hardlink_to(image)
    with mounted(image, point):
        for name in (image, other):
            assert "is the file of a loop device" in refused("--serve", str(name), *FAST)
    other.unlink()
    with serving(image) as (server, _):
        assert "is locked by another program" in refused(*serve)
        server.terminate()
        server.communicate(timeout=HANGS_AFTER_S)
    assert image.read_bytes()[: 1 << 10] == content[: 1 << 10]
    image.unlink()
    with loop_device(folder, 64) as loop:
        run("mkfs.ext4", "-q", "-F", "-b", "4096", loop)
        with mounted(loop, point):
            assert "is mounted, swapped on, or used" in refused("--serve", loop, *FAST)
        # The kernel keeps this for the next file of the device.
        run("blockdev", "--setro", loop)
        try:
            assert f"{loop}: is read-only" in refused("--serve", loop, *FAST)
        finally:
            run("blockdev", "--setrw", loop)
    (folder / "disk").unlink()
    assert logs() == before and list(folder.iterdir()) == []


def test_json_at_the_end_names_what_was_served(folder: Path) -> None:
    image = file_system(folder / "disk")
    content = image.read_bytes()
    answer = subprocess.run(
        [str(AGENT), "swapd", "--serve", str(image), *FAST, "--json", "--", "true"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert answer.returncode == 0 and f"serving {image} at /dev/" in answer.stderr
    report = json.loads(answer.stdout)
    assert report["schema"] == "pagewise.swapd/1" and report["serves"] == str(image)
    assert report["policy"] == "nvm-cache" and report["options"]["admit_at"] == "fault"
    # Serving changes nothing by itself.
    assert report["slow"]["writes"] == 0 and image.read_bytes() == content
    image.unlink()
