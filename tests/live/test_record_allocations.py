"""Recordings of allocations by the preload library, of programs with a known number of blocks.

Needs no privileges, only the agent and a C compiler.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import AGENT
from waiting import killed_after, running

from pagewise.report import report
from pagewise_studies.lazy_unmap import study
from pagewise_studies.lazy_unmap_model import POOLS

PAGEWISE = AGENT.with_name("pagewise")
PREAMBLE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define PAGE 4096
#define KIB 1024
static void touch(char *block, int first, int pages) {
    for (int page = first; page < first + pages; page++) ((volatile char *)block)[page * PAGE] = 1;
}
"""
REFUSAL = (
    "no pagewise-agent beside this Python: make build"
    if not AGENT.exists()
    else "no C compiler"
    if shutil.which("cc") is None
    else None
)
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


def compiled(folder: Path, body: str, *options: str) -> Path:
    """Compiles a program whose main has this body."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(f"{PREAMBLE}\nint main(void) {{\n{body}\n}}\n")
    subprocess.run(
        ["cc", "-O0", "-pthread", source, "-o", program, *options], check=True, timeout=120
    )
    return program


def record(output: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [AGENT, "record", "--allocations", "-o", output, "--", *command],
        capture_output=True,
        text=True,
        timeout=300,
    )


def report_of(recording: Path) -> dict[str, Any]:
    answer = subprocess.run(
        [PAGEWISE, "info", "--json", recording],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def info_of(folder: Path, body: str) -> dict[str, Any]:
    """Records a program with this body; returns the report of ``info``."""
    recording = folder / "program.pgr"
    finished = record(recording, compiled(folder, body))
    assert finished.returncode == 0, finished.stderr
    return report_of(recording)


def test_blocks_and_their_touched_pages_are_counted(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        """
        char *block = malloc(1024 * KIB);          // glibc's header touches the first page
        touch(block, 10, 10); touch(block, 100, 5);
        free(block);
        char *zeroed = calloc(3, 100 * KIB);       // never freed
        touch(zeroed, 1, 4);
        int how = MAP_PRIVATE | MAP_ANONYMOUS;
        char *mapped = mmap(0, 1024 * KIB, PROT_READ | PROT_WRITE, how, -1, 0);
        touch(mapped, 0, 20);
        munmap(mapped + 512 * KIB, 512 * KIB);
        madvise(mapped, 40 * KIB, MADV_DONTNEED);
        touch(mapped, 0, 3);
        munmap(mapped, 512 * KIB);
        void *aligned = 0;
        if (posix_memalign(&aligned, 64 * KIB, 200 * KIB) || (long)aligned % (64 * KIB)) return 1;
        free(aligned);
        for (int n = 0; n < 5000; n++) free(malloc(100));
        return 0;
        """,
    )
    assert (info["allocated"], info["mapped"], info["zeroed"]) == (3, 1, 2)
    # 1 + 15 of malloc, 1 + 4 of calloc, 20 + 3 of mmap, 1 or 2 for headers of the aligned block.
    assert info["pages_touched"] - (16 + 5 + 23) in (0, 1, 2)
    assert info["small_calls"] >= 5000 and info["small_bytes"] >= 500_000
    assert info["losses"] == []
    assert info["processes"] == [["program", 4]]
    assert info["minor_faults"] > info["pages_touched"]


def test_a_resized_block_is_followed(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        """
        char *block = malloc(100);
        for (long size = 100 * KIB; size <= 6400 * KIB; size *= 2) {
            block = realloc(block, size);
            memset(block, 1, size);
        }
        block = realloc(block, 50 * KIB);
        return block == 0;
        """,
    )
    # From 100 KiB to 6400 KiB in seven steps, of which six resize a large block.
    assert (info["allocated"], info["resized"]) == (7, 6)
    assert info["losses"] == []
    assert info["live_bytes_max"] == pytest.approx(6400 * 1024, abs=8192)


def test_threads_lose_nothing(tmp_path: Path) -> None:
    body = """
        pthread_t threads[8];
        for (int n = 0; n < 8; n++) pthread_create(&threads[n], 0, work, 0);
        for (int n = 0; n < 8; n++) pthread_join(threads[n], 0);
        return 0;
    """
    work = """
    static void *work(void *nothing) {
        for (int n = 0; n < 2000; n++) {
            char *block = malloc((64 + n % 300) * KIB);
            touch(block, 0, 2);
            free(block);
        }
        return nothing;
    }
    """
    global_preamble = PREAMBLE + work
    source, program = tmp_path / "threads.c", tmp_path / "threads"
    source.write_text(f"{global_preamble}\nint main(void) {{\n{body}\n}}\n")
    subprocess.run(["cc", "-O0", "-pthread", source, "-o", program], check=True, timeout=120)
    recording = tmp_path / "threads.pgr"
    assert record(recording, program).returncode == 0
    info = report_of(recording)
    assert info["allocated"] == 16_000
    # The header's page and the next one, or also a page after them.
    assert 2 * 16_000 <= info["pages_touched"] <= 3 * 16_000
    assert info["losses"] == []


def test_children_and_their_programs_are_separate_processes(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        """
        char *block = malloc(300 * KIB);
        if (fork() == 0) { free(block); touch(malloc(200 * KIB), 0, 50); _exit(0); }
        if (fork() == 0) { execlp("true", "true", NULL); _exit(1); }
        while (wait(NULL) > 0) {}
        free(block);
        return 0;
        """,
    )
    assert info["processes"] == [["program", 1], ["program", 1]]
    assert info["processes_all"] == 4, "the program, its two children, and the program of one child"
    assert info["losses"] == []


def test_recording_continues_after_a_program_closes_all_descriptors(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        """
        free(malloc(100 * KIB));
        for (int fd = 3; fd < 1000; fd++) close(fd);
        for (int n = 0; n < 5000; n++) free(malloc(100 * KIB));
        return 0;
        """,
    )
    assert (info["allocated"], info["losses"]) == (5001, [])


def test_the_allocations_of_a_killed_program_are_kept(tmp_path: Path) -> None:
    program = compiled(tmp_path, "touch(malloc(100 * KIB), 0, 9); raise(SIGKILL); return 0;")
    finished = record(tmp_path / "killed.pgr", program)
    assert finished.returncode == 128 + signal.SIGKILL
    info = report_of(tmp_path / "killed.pgr")
    assert info["allocated"] == 1
    # Lost are the touched pages of its block, and its CPU time.
    assert [loss["count"] for loss in info["losses"]] == [1, 1]
    unknown = ("pages_touched", "processor_ns", "system_ns", "minor_faults")
    assert [info[name] for name in unknown] == [None] * 4
    command = [PAGEWISE, "info", tmp_path / "killed.pgr"]
    words = subprocess.check_output(command, text=True, timeout=120)
    assert "unknown for some blocks" in words and "as when it is killed" in words


def test_a_study_does_not_judge_the_time_of_a_killed_program(tmp_path: Path) -> None:
    body = "for (int n = 0; n < 9; n++) { char *b = malloc(300 * KIB); touch(b, 0, 70); free(b); }"
    recordings = [tmp_path / "killed.pgr", tmp_path / "whole.pgr"]
    for recording, end in zip(recordings, ["raise(SIGKILL); return 0;", "return 0;"], strict=True):
        record(recording, compiled(tmp_path, f"{body}\n{end}"))
    for folder in ("alone", "both"):
        (tmp_path / folder).mkdir()
    alone = study([recordings[0]], tmp_path / "alone", seed=1)
    rows = {f"{row['check']} {row['part']}".strip(): row for row in alone["verdicts"]}
    for name in ("ACC-S3-2 response", "ACC-S3-2 identity"):
        assert rows[name]["verdict"] == "not measurable" and "killed" in rows[name]["why"]
    assert rows["ACC-S3-1 never more"]["verdict"] == "holds"
    [table] = alone["tables"]
    place = table["columns"].index("time saved (model)")
    assert {row[place] for row in table["rows"]} == {None}
    both = study(recordings, tmp_path / "both", seed=1)
    rows = {f"{row['check']} {row['part']}".strip(): row for row in both["verdicts"]}
    assert rows["ACC-S3-2 identity"]["readings"] == len(POOLS), "only of the complete recording"
    page = tmp_path / "page.html"
    report([tmp_path / "both" / "lazy-unmap.json"], page)
    assert "Allocators on killed" in page.read_text()


def test_a_recording_is_recovered_after_a_killed_recorder(tmp_path: Path) -> None:
    body = 'free(malloc(100 * KIB)); printf("%d\\n", getpid()); fflush(stdout); pause(); return 0;'
    program, recording = compiled(tmp_path, body), tmp_path / "left.pgr"
    command = [AGENT, "record", "--allocations", "-o", recording, "--", program]
    with running(command, stdout=subprocess.PIPE) as recorder, killed_after(120, recorder):
        process = int(recorder.stdout.readline())
        recorder.kill()
        recorder.wait(60)
        os.kill(process, signal.SIGKILL)
    refused = record(recording, "true")
    assert refused.returncode == 2 and "--recover" in refused.stderr
    parts = tmp_path / "left.pgr.parts"
    recovery = [AGENT, "record", "--allocations", "--recover", parts, "-o", recording]
    subprocess.run(recovery, check=True, capture_output=True, timeout=120)
    assert report_of(recording)["allocated"] == 1


@pytest.fixture
def tight_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    folder = tmp_path / "tight"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True, timeout=300
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=300)


def test_a_recording_is_recovered_after_a_full_disk(tmp_path: Path, tight_disk: Path) -> None:
    body = "for (int n = 0; n < 20000; n++) free(malloc(100 * KIB)); return 0;"
    refused = record(tight_disk / "full.pgr", compiled(tmp_path, body))
    assert refused.returncode == 3 and "--recover" in refused.stderr
    parts, elsewhere = tight_disk / "full.pgr.parts", tmp_path / "elsewhere.pgr"
    recovery = [AGENT, "record", "--allocations", "--recover", parts, "-o", elsewhere]
    recovered = subprocess.run(recovery, capture_output=True, text=True, timeout=120)
    assert recovered.returncode in (0, 4), recovered.stderr
    assert report_of(elsewhere)["allocated"] > 0


def test_streams_and_status_pass_through(tmp_path: Path) -> None:
    finished = record(tmp_path / "a.pgr", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert finished.returncode == 7
    assert finished.stdout == "out\n"
    assert finished.stderr.startswith("err\n")
    assert not (tmp_path / "a.pgr.parts").exists()


def test_refusals_give_advice(tmp_path: Path) -> None:
    nothing = record(tmp_path / "a.pgr")
    assert nothing.returncode == 2 and "--" in nothing.stderr
    absent = record(tmp_path / "a.pgr", "no-such-program")
    assert absent.returncode == 127 and "no-such-program" in absent.stderr
    static = record(tmp_path / "a.pgr", compiled(tmp_path, "return 0;", "-static"))
    assert static.returncode == 2 and "static" in static.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program", "program.c"]


def test_info_and_import_read_the_recording(tmp_path: Path) -> None:
    recording = tmp_path / "python.pgr"
    assert record(recording, sys.executable, "-c", "bytearray(10_000_000)").returncode == 0
    words = subprocess.run(
        [PAGEWISE, "info", recording], capture_output=True, text=True, check=True, timeout=300
    )
    assert "must read as zero" in words.stdout
    imported = subprocess.run(
        [PAGEWISE, "import", recording, "-o", tmp_path / "a.parquet"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "allocate" in imported.stdout
