"""`pagewise capture` on real programs, of this processor and of arm64."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_schemas import check
from waiting import killed_after

from pagewise import cli, layouts
from pagewise.capture.program import without_env
from pagewise.capture.run import PLUGIN
from pagewise.reference_curves import curves
from pagewise.references import import_references, references_info

PAGEWISE = [sys.executable, "-m", "pagewise"]
NEEDED = [name for name in ("qemu-x86_64", "qemu-aarch64", "cc") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(NEEDED) or not PLUGIN.exists() or os.uname().machine != "x86_64",
        reason="needs x86-64, qemu-user, cc and the capture plugin; "
        f"missing: {NEEDED or PLUGIN.name}",
    ),
]

# Loops over 64 KiB without a library, so that all tools count the same instructions.
BARE = """
static volatile unsigned long cells[8192];
static void leave(void) { EXIT; }
void _start(void)
{
    for (int round = 0; round < 3; round++)
        for (int cell = 0; cell < 8192; cell += 3)
            cells[cell] += cells[8191 - cell];
    leave();
    __builtin_unreachable();
}
"""
EXITS = {
    "cc": '__asm__ volatile("syscall" : : "a"(231), "D"(7))',
    "aarch64-linux-gnu-gcc": '__asm__ volatile("mov x8, 94\\n mov x0, 7\\n svc 0")',
}
ROUNDS = 3 * 2731
FAMILY = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char scanned[1 << 20];
static void *scan(void *argument)
{
    for (int round = 0; round < 4; round++)
        for (size_t byte = 0; byte < sizeof scanned; byte += 64)
            ((volatile char *)scanned)[byte]++;
    return argument;
}
int main(int count, char **words)
{
    pthread_t thread;
    if (count > 1 && strcmp(words[1], "crash") == 0)
        abort();
    pthread_create(&thread, NULL, scan, NULL);
    pthread_join(thread, NULL);
    if (fork() == 0)
        _exit(scan(NULL) != NULL);
    wait(NULL);
    execl("/nonexistent", "nonexistent", NULL);
    execl("/bin/true", "true", NULL);
    return 1;
}
"""


def built(folder: Path, source: str, *options: str, compiler: str = "cc") -> Path:
    """A program compiled from C."""
    program = folder / "program"
    (folder / "program.c").write_text(source)
    subprocess.run(
        [compiler, "-O1", *options, str(folder / "program.c"), "-o", str(program)],
        check=True,
        timeout=120,
    )
    return program


def bare(folder: Path, compiler: str) -> Path:
    options = ["-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"]
    return built(folder, BARE.replace("EXIT", EXITS[compiler]), *options, compiler=compiler)


def captured(*arguments: object) -> dict[str, Any]:
    """The JSON result of a successful capture."""
    command = [*PAGEWISE, "capture", "--json", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    check(result, layouts.schema("capture"))
    return result


@pytest.mark.parametrize("compiler", EXITS)
def test_a_bare_program_is_captured_to_the_last_reference(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    trace = tmp_path / "trace.pwf"
    result = captured("-o", trace, "--", bare(tmp_path, compiler))
    assert (result["exit_status"], result["stop"], result["notes"]) == (7, "end", [])
    assert ROUNDS <= result["writes"] < ROUNDS + 20
    assert ROUNDS <= result["reads"] + result["writes"] - ROUNDS < 2 * ROUNDS + 20
    # 128 blocks of cells go three times through a filter of 64.
    assert 3 * 128 - 64 <= result["steps"] < 3 * 2 * 128 + 20
    answer = references_info(trace)
    assert answer["origin"]["architecture"] == ("x86_64" if compiler == "cc" else "aarch64")
    assert curves(trace).architecture == answer["origin"]["architecture"]
    for field in ("references", "instructions", "reads", "writes", "steps", "file_bytes"):
        assert answer[field] == result[field]


def test_lackey_counts_the_same_references(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    program, text = bare(tmp_path, "cc"), tmp_path / "lackey.txt"
    lackey = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={text}", str(program)]
    assert subprocess.run(lackey, timeout=120).returncode == 7
    theirs = import_references(text, tmp_path / "lackey.pwf")
    ours = captured("-o", tmp_path / "trace.pwf", "--", program)
    for field in ("references", "instructions", "reads", "writes", "steps"):
        assert ours[field] == theirs[field], field


def test_threads_children_and_other_programs_are_reported(tmp_path: Path) -> None:
    program = built(tmp_path, FAMILY, "-pthread")
    trace = tmp_path / "trace.pwf"
    first = captured("-o", trace, "--", program)
    expected = {"threads": 2, "children": 1, "programs": 1}
    assert first["processes"] == expected
    assert any("--threads" in note for note in first["notes"])
    assert len(first["notes"]) == 3
    every = captured("--threads", "--force", "-o", trace, "--", program)
    assert every["processes"] == expected and len(every["notes"]) == 2
    # Every 64th byte of a megabyte, four times, by the other thread.
    assert every["writes"] - first["writes"] >= 4 * 2**20 / 64
    ending = references_info(trace)["ending"]
    assert ending["processes"] == expected


TOUCHES = r"""
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PAGE = 4096, MIB = 1 << 20 };
static char *aligned(void)
{
    char *mapped = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return (char *)(((uintptr_t)mapped + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
}
int main(int count, char **words)
{
    int file = open(words[1], O_RDONLY);
    volatile char *written = aligned(), *both = written + MIB, *filled = aligned(), sum = 0;
    volatile char *mapped = mmap(0, MIB, PROT_READ, MAP_PRIVATE, file, 0);
    if (count > 2)
        return 0;
    for (int byte = 0; byte < MIB; byte += PAGE)
        written[byte] = 1;
    for (int byte = 0; byte < MIB; byte += PAGE)
        sum += both[byte];
    for (int byte = 0; byte < MIB; byte += PAGE)
        both[byte] = 1;
    if (read(file, (char *)filled, MIB) != MIB)
        return 1;
    for (int byte = 0; byte < MIB; byte += PAGE)
        sum += filled[byte] + mapped[byte];
    munmap((char *)filled, MIB);
    return sum & 2;
}
"""


def test_minor_faults_are_known_by_what_the_memory_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, zeros = built(tmp_path, TOUCHES), tmp_path / "zeros"
    zeros.write_bytes(bytes(1 << 20))
    sizes = [4096, 65536, 2 << 20]
    faults = []
    for name, words in (("all", []), ("none", ["none"])):
        trace = tmp_path / f"{name}.pwf"
        captured("-o", trace, "--", program, zeros, *words)
        found = curves(trace, page_sizes=4096, huge_pages=sizes).minor_faults
        assert found is not None
        faults.append(found)
    heap = [faults[0][size]["heap"] - faults[1][size]["heap"] for size in sizes]
    # Written, read and then written, filled by read().
    assert heap[:2] == [256 + 512 + 256, 16 + 512 + 16]
    # The first write makes the whole 2 MiB huge; the memory that read() fills is unmapped.
    assert heap[2] == 2
    files = {faults[0][size]["file"] - faults[1][size]["file"] for size in sizes}
    assert len(files) == 1 and 16 <= files.pop() <= 18
    trace = str(tmp_path / "all.pwf")
    assert cli.run(["curves", trace, "--frames", "64", "--huge-pages", "4KiB,64KiB"]) == 0
    assert "minor faults in the heap" in capsys.readouterr().out


# Resizes 256 mappings of two pages to 5000 bytes and back, which keeps both pages. With
# MREMAP_MAYMOVE, QEMU would move them each time.
RESIZED = r"""
#define _GNU_SOURCE
#include <sys/mman.h>
enum { PAGE = 4096, BLOCKS = 256 };
int main(int count, char **words)
{
    for (int at = 0; at < BLOCKS; at++) {
        char *block =
            mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        volatile char *byte = block;
        byte[0] = byte[PAGE] = 1;
        if (count > 1) {
            mremap(block, 5000, 2 * PAGE, 0);
            byte[PAGE + 1024] = 1;
            mremap(block, 2 * PAGE, 5000, 0);
            byte[PAGE + 2048] = 1;
        }
    }
    return 0;
}
"""


def test_mremap_keeps_a_page_that_has_some_of_the_bytes(tmp_path: Path) -> None:
    program = built(tmp_path, RESIZED)
    faults = []
    for name, words in (("kept", []), ("resized", ["resized"])):
        trace = tmp_path / f"{name}.pwf"
        captured("-o", trace, "--", program, *words)
        found = curves(trace, page_sizes=4096, huge_pages=4096).minor_faults
        assert found is not None
        faults.append(found[4096]["heap"] + found[4096]["anonymous"])
    assert faults[0] >= 2 * 256 and abs(faults[1] - faults[0]) < 10


@pytest.mark.parametrize("blocks", [0, 3, 65])
def test_the_plugin_refuses_a_filter_of_another_size(blocks: int) -> None:
    words = ["qemu-x86_64", "-plugin", f"{PLUGIN},filter={blocks}", "/bin/true"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0 and f"a filter of {blocks} blocks" in run.stderr


def test_fewer_blocks_in_the_filter_count_tlbs_of_few_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = bare(tmp_path, "cc")
    of = {}
    for blocks in (4, 64):
        trace = tmp_path / f"{blocks}.pwf"
        captured("--filter", blocks, "-o", trace, "--", program)
        of[blocks] = curves(trace, tlb="8x4")
        assert of[blocks].exact_from == blocks
    fine, coarse = of[4], of[64]
    assert (fine.references, fine.steps) == (coarse.references, coarse.steps)
    for size, curve in coarse.sizes.items():
        assert not fine.is_lower_bound(size, "8x4")
        assert (
            curve.faults([64, 100, 1000]).tolist()
            == fine.sizes[size].faults([64, 100, 1000]).tolist()
        )
        assert curve.misses_of_tlb("8x4") <= fine.sizes[size].misses_of_tlb("8x4")
    assert coarse.is_lower_bound(512, "8x4")
    words = ["capture", "--filter", "3", "-o", str(tmp_path / "few.pwf"), "--", "true"]
    assert cli.run(words) == 2 and "--filter" in capsys.readouterr().err


def test_a_crash_keeps_all_references_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.pwf"
    result = captured("-o", trace, "--", built(tmp_path, FAMILY, "-pthread"), "crash")
    assert (result["signal"], result["exit_status"]) == ("SIGABRT", None)
    assert result["references"] > 1000
    ending = references_info(trace)["ending"]
    assert (ending["stop"], ending["signal"]) == ("end", "SIGABRT")
    assert cli.run(["info", str(trace)]) == 0
    assert "the program was ended by SIGABRT" in capsys.readouterr().out
    assert cli.run(["curves", str(trace), "--frames", "64"]) == 0
    assert "note: the program was ended by SIGABRT" in capsys.readouterr().err


def test_a_trace_of_a_whole_run_is_not_called_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.pwf"
    assert captured("-o", trace, "--", "/bin/false")["exit_status"] == 1
    result = references_info(trace)
    assert (result["cut"], result["ending"]["exit_status"]) == (None, 1)
    assert cli.run(["info", str(trace)]) == 0
    assert "the program ended with status 1" in capsys.readouterr().out
    assert cli.run(["curves", str(trace), "--frames", "64"]) == 0
    assert capsys.readouterr().err == ""


def test_a_file_cut_between_frames_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, cut = tmp_path / "t.pwf", tmp_path / "cut.pwf"
    captured("-o", trace, "--", sys.executable, "-c", "")
    whole = trace.read_bytes()
    (origin,) = struct.unpack_from("<I", whole, 8)
    end = 16 + origin
    for _ in ("mappings", "steps"):
        (frame,) = struct.unpack_from("<I", whole, end)
        end += 8 + frame
    cut.write_bytes(whole[:end])
    assert references_info(cut)["cut"] == "the file was cut off"
    assert cli.run(["info", str(cut)]) == 0
    assert "the file was cut off; the trace is whole up to the last" in capsys.readouterr().out
    assert cli.run(["curves", str(cut), "--frames", "64", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cut"] == "the file was cut off" and answer["references"] > 0
    assert cli.run(["curves", str(cut), "--frames", "64"]) == 0
    assert (
        "note: the file was cut off: the counts cover the run up to there"
        in capsys.readouterr().err
    )


def test_a_script_and_a_limit(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\necho $0 $1\nwhile :; do :; done\n")
    script.chmod(0o755)
    command = [*PAGEWISE, "capture", "--max-refs", "2000000", "-o", str(tmp_path / "t.pwf")]
    run = subprocess.run(
        [*command, "--", str(script), "word"], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout) == (0, f"{script} word\n"), run.stderr
    assert "requested number of references" in run.stderr
    result = references_info(tmp_path / "t.pwf")
    assert 2_000_000 <= result["references"] < 2_001_000 and result["ending"]["stop"] == "limit"
    assert result["cut"] == "the capture ended at the requested number of references"


@pytest.mark.parametrize("line", ["/usr/bin/env sh", "/usr/bin/env -S sh -e"])
def test_the_interpreter_of_an_env_script_is_captured(tmp_path: Path, line: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{line}\necho $0 $1\n")
    script.chmod(0o755)
    trace = tmp_path / "t.pwf"
    run = subprocess.run(
        [*PAGEWISE, "capture", "-o", str(trace), "--", str(script), "word"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout) == (0, f"{script} word\n"), run.stderr
    assert references_info(trace)["ending"]["processes"]["programs"] == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/usr/bin/env python3", ["python3"]),
        ("/usr/bin/env -S python3 -u -X dev", ["python3", "-u", "-X", "dev"]),
        ("/usr/bin/env -i sh", ["/usr/bin/env", "-i sh"]),
        ("/usr/bin/env -S A=b sh", ["/usr/bin/env", "-S A=b sh"]),
        ("/usr/bin/env -S sh '-c' true", ["/usr/bin/env", "-S sh '-c' true"]),
        ("/usr/bin/env", ["/usr/bin/env"]),
        ("/bin/sh -e", ["/bin/sh", "-e"]),
    ],
)
def test_env_resolves_to_its_program(line: str, found: list[str]) -> None:
    assert without_env(line.split(maxsplit=1)) == found


def test_ctrl_c_keeps_what_was_captured(tmp_path: Path) -> None:
    trace = tmp_path / "t.pwf"
    endless = [sys.executable, "-c", "print('begun', flush=True)\nwhile True: pass"]
    command = [*PAGEWISE, "capture", "-o", str(trace), "--", *endless]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        killed_after(120, process),
    ):
        assert process.stdout and process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        _, diagnostics = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in diagnostics
    result = references_info(trace)
    assert result["ending"]["stop"] == "interrupt" and result["references"] > 1_000_000


def test_commands_that_cannot_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, folder = tmp_path / "text", tmp_path / "folder"
    text.write_text("no program\n")
    folder.mkdir()
    looping = tmp_path / "looping"
    looping.write_text(f"#!{looping}\n")
    foreign = tmp_path / "foreign"
    header = bytearray(Path("/bin/true").read_bytes())
    header[18] = 8  # e_machine: MIPS
    foreign.write_bytes(header)
    for path in (looping, foreign):
        path.chmod(0o755)

    def refused(*command: object) -> str:
        status = cli.run(["capture", "-o", str(tmp_path / "t.pwf"), "--", *map(str, command)])
        assert status == 2 and not (tmp_path / "t.pwf").exists()
        return capsys.readouterr().err

    assert "no program is called" in refused("no-such-program")
    assert "does not exist" in refused(tmp_path / "none")
    assert "chmod +x" in refused(text)
    assert "is not a program" in refused(folder)
    assert "scripts interpret one another" in refused(looping)
    assert "is made for machine 8" in refused(foreign)
    looping.write_text("#!/no/such/shell\n")
    assert f"{looping} is a script; its interpreter: /no/such/shell does not exist" in refused(
        looping
    )
    text.chmod(0o755)
    assert "neither a program nor a script" in refused(text)
    assert cli.run(["capture", "-o", str(tmp_path / "no" / "t.pwf"), "--", "/bin/true"]) == 3
    assert "cannot write to the folder" in capsys.readouterr().err
    (tmp_path / "t.pwf").write_bytes(b"mine")
    assert cli.run(["capture", "-o", str(tmp_path / "t.pwf"), "--", "/bin/true"]) == 2
    assert (tmp_path / "t.pwf").read_bytes() == b"mine"


def test_only_a_whole_trace_replaces_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, link = tmp_path / "t.pwf", tmp_path / "link.pwf"
    link.symlink_to(trace)
    captured("-o", trace, "--", "/bin/true")
    before = trace.read_bytes()
    monkeypatch.setenv("QEMU_CPU", "no-such-processor")
    failing = [*PAGEWISE, "capture", "--force", "-o", str(trace), "--", "/bin/true"]
    run = subprocess.run(failing, capture_output=True, text=True, timeout=120)
    assert run.returncode == 3 and "QEMU could not run" in run.stderr, run.stderr
    assert trace.read_bytes() == before
    monkeypatch.delenv("QEMU_CPU")
    # A link is replaced, and what it names stays, as for the results of other commands.
    assert captured("--force", "-o", link, "--", "/bin/true", "word")["trace"] == str(link)
    assert references_info(link)["origin"]["command"] == ["/bin/true", "word"]
    assert not link.is_symlink() and trace.read_bytes() == before
    link.unlink()
    link.symlink_to(tmp_path / "absent")
    captured("--force", "-o", link, "--", "/bin/true")
    assert not link.is_symlink() and set(tmp_path.iterdir()) == {link, trace}


def test_an_unwritable_trace_is_refused_before_the_program_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started, pipe = tmp_path / "started", tmp_path / "pipe"
    os.mkfifo(pipe)
    for output, message in (
        ("", "has no name"),
        (os.devnull, "not a regular file"),
        (str(tmp_path), "not a regular file"),
        (str(pipe), "not a regular file"),
    ):
        assert cli.run(["capture", "--force", "-o", output, "--", "touch", str(started)]) == 2
        assert message in capsys.readouterr().err
    assert not started.exists()


def test_the_trace_replaces_no_file_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("program", "script", "link", "hard-link")
    program, script, link, hard_link = (tmp_path / name for name in names)
    program.write_bytes(Path("/bin/true").read_bytes())
    script.write_text(f"#!{program}\n")
    link.symlink_to(program)
    hard_link.hardlink_to(program)
    for path in (program, script):
        path.chmod(0o755)
    for output, command in (
        (program, [program]),
        (link, [program]),
        (hard_link, [program]),
        (program, [script]),
        (script, [script]),
        (script, ["/bin/cat", script]),
    ):
        before = output.read_bytes()
        assert cli.run(["capture", "--force", "-o", *map(str, [output, "--", *command])]) == 2
        assert "is part of the command" in capsys.readouterr().err
        assert output.read_bytes() == before


ON_A_FULL_DISK = """
import resource, sys
from pagewise import cli
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), limits[1]))
sys.exit(cli.run(sys.argv[2:]))
"""
"""A command that may write files up to a size limit; Python ignores SIGXFSZ, so writes fail."""
# The memory that a capture shares with its plugin is also a file, of 131,128 bytes.
SMALL_DISK_BYTES = 200_000


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_what_the_error_says(tmp_path: Path, is_there: bool) -> None:
    trace = tmp_path / "t.pwf"
    if is_there:
        captured("-o", trace, "--", "/bin/true")
    before = trace.read_bytes() if is_there else None
    strewn = (
        "import random; memory = bytearray(1 << 26)\n"
        "for _ in range(1 << 18): memory[random.randrange(1 << 26)] = 1"
    )
    command = ["capture", "--force", "-o", str(trace), "--", sys.executable, "-c", strewn]
    run = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(SMALL_DISK_BYTES), *command],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 3, run.stderr
    message, left = run.stderr.splitlines()[-2:]
    assert message.startswith(f"pagewise: {trace}: ") and "File too large" in message
    if is_there:
        assert left == f"  {trace} is as it was"
        assert trace.read_bytes() == before
    else:
        found = references_info(trace)
        assert found["cut"] == "the file was cut off"
        kept = f"whole up to its first {found['references']:,} references"
        assert left == f"  {trace} is {kept}; what came later is lost"
    assert list(tmp_path.iterdir()) == [trace]


def test_a_capture_without_a_whole_frame_leaves_no_file(tmp_path: Path) -> None:
    trace = tmp_path / "t.pwf"
    command = ["capture", "-o", str(trace), "--", sys.executable, "-c", "pass"]
    run = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, "131200", *command],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 3, run.stderr
    assert run.stderr.splitlines()[-1] == f"  {trace} is missing: nothing was kept"
    assert list(tmp_path.iterdir()) == []
