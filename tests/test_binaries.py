"""Checks for larger pages, on real programs, packages from zipfile and hostile files."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewise.binaries.check import check
from pagewise.errors import UnreadableInput, UsageError

PAGEWISE = [sys.executable, "-m", "pagewise"]
LIBRARY = 'const char message[] = "%s"; int answer(void) { return 42; }'
JEMALLOC = "<jemalloc>: Unsupported system page size"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def built(path: Path, alignment: int, message: str = "") -> Path:
    """A shared object whose segments the linker aligns to ``alignment`` bytes."""
    source = path.with_suffix(".c")
    source.write_text(LIBRARY % message)
    pages = [f"-Wl,-z,max-page-size={alignment}", f"-Wl,-z,common-page-size={min(alignment, 4096)}"]
    subprocess.run(["cc", "-shared", "-fPIC", *pages, "-o", path, source], check=True, timeout=300)
    source.unlink()
    return path


def words(path: Path, page_size: str = "16KiB") -> list[str]:
    return [
        problem["what"]
        for file in check([path], page_size)["files"]
        for problem in file["problems"]
    ]


@pytest.mark.parametrize("alignment", [4096, 16384, 65536])
def test_alignment_of_the_linker_is_what_counts(tmp_path: Path, alignment: int) -> None:
    library = built(tmp_path / "libanswer.so", alignment)
    assert check([library])["files"][0]["alignment_bytes"] == alignment
    for page_kib in (4, 16, 64):
        result = check([library], f"{page_kib}KiB")
        assert result["fails"] == (alignment < page_kib * 1024)
        for problem in result["files"][0]["problems"]:
            assert problem["fix"] == f"link with -Wl,-z,max-page-size={page_kib * 1024}"


def test_a_program_that_runs_here_has_no_problem(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }")
    for static in ([], ["-static"]):
        for alignment in (4096, 16384):
            program = tmp_path / f"main-{alignment}"
            page = f"-Wl,-z,max-page-size={alignment}"
            subprocess.run(["cc", *static, page, "-o", program, source], check=True, timeout=300)
            assert subprocess.run([program], timeout=300).returncode == 0
            assert bool(words(program)) == (alignment == 4096)


def test_claimed_alignment_must_hold_in_file_and_memory(tmp_path: Path) -> None:
    library = built(tmp_path / "libtorn.so", 4096)
    raw = bytearray(library.read_bytes())
    (start,) = struct.unpack_from("<Q", raw, 32)
    (entries,) = struct.unpack_from("<H", raw, 56)
    for entry in range(start, start + entries * 56, 56):
        if struct.unpack_from("<I", raw, entry) == (1,):
            struct.pack_into("<Q", raw, entry + 48, 16384)
    # The first segment is at 0 in file and memory; the offsets of the others must agree too.
    struct.pack_into("<Q", raw, start + 16, 4096)
    library.write_bytes(raw)
    assert any("different offsets" in what for what in words(library))


def test_jemalloc_is_reported_but_fails_no_program_by_itself(tmp_path: Path) -> None:
    plain = built(tmp_path / "libplain.so", 16384)
    with_it = built(tmp_path / "libheap.so", 16384, JEMALLOC)
    assert words(plain) == []
    result = check([tmp_path])
    assert (result["fails"], result["may_fail"]) == (0, 1)
    (problem,) = next(f for f in result["files"] if f["path"] == str(with_it))["problems"]
    assert "jemalloc" in problem["what"] and "--with-lg-page=14" in problem["fix"]
    assert "--with-lg-page=16" in check([with_it], "64KiB")["files"][0]["problems"][-1]["fix"]


def test_a_string_across_two_reads_is_found(tmp_path: Path) -> None:
    library = built(tmp_path / "libfar.so", 16384)
    for shift in range(0, 60, 7):
        padding = 2**20 - library.stat().st_size % 2**20 - shift
        far = tmp_path / f"libfar-{shift}.so"
        far.write_bytes(library.read_bytes() + bytes(padding) + JEMALLOC.encode())
        assert any("jemalloc" in what for what in words(far)), shift


def package(path: Path, libraries: dict[str, Path], compression: int, boundary: int = 1) -> Path:
    """An APK whose stored libraries begin at multiples of ``boundary``, but of no larger page."""
    with zipfile.ZipFile(path, "w") as apk:
        apk.writestr("AndroidManifest.xml", "<manifest/>")
        for name, library in libraries.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = compression
            start = apk.start_dir + 30 + len(name)
            padding = -start % boundary if boundary > 1 else (4096 - start % 4096) + 4
            entry.extra = bytes(padding)
            apk.writestr(entry, library.read_bytes())
    return path


def test_packages_are_checked_by_library(tmp_path: Path) -> None:
    narrow = built(tmp_path / "libnarrow.so", 4096)
    wide = built(tmp_path / "libwide.so", 16384)
    name = "lib/arm64-v8a/libanswer.so"

    fine = package(tmp_path / "fine.apk", {name: wide}, zipfile.ZIP_STORED, 16384)
    assert words(fine) == []
    unaligned = package(tmp_path / "unaligned.apk", {name: wide}, zipfile.ZIP_STORED, 4096)
    assert words(unaligned) == ["stored uncompressed at byte 4096, not a multiple of 16 KiB"]
    assert words(unaligned, "4KiB") == []
    # Compressed libraries are unpacked on installation.
    packed = package(tmp_path / "packed.apk", {name: wide}, zipfile.ZIP_DEFLATED)
    assert words(packed) == []
    both = package(tmp_path / "both.apk", {name: narrow}, zipfile.ZIP_STORED)
    assert len(words(both)) == 2
    assert check([both])["files"][0]["path"] == f"{both}!{name}"
    # A device with larger pages uses the 64-bit libraries.
    mixed = {name: wide, "lib/armeabi-v7a/libanswer.so": narrow}
    assert words(package(tmp_path / "mixed.apk", mixed, zipfile.ZIP_DEFLATED)) == []
    result = check([tmp_path])
    assert result["fails"] == 3  # libnarrow.so, unaligned.apk, both.apk


def test_damaged_packages_are_reported(tmp_path: Path) -> None:
    wide = built(tmp_path / "libwide.so", 16384)
    name = "lib/x86_64/libanswer.so"
    apk = package(tmp_path / "cut.apk", {name: wide}, zipfile.ZIP_DEFLATED)
    whole = apk.read_bytes()
    apk.write_bytes(whole[: len(whole) // 2])
    assert "not a complete package" in words(apk)[0]
    damaged = bytearray(whole)
    end = whole.index(b"PK\x01\x02")
    damaged[end - 64 : end] = bytes(64)
    apk.write_bytes(damaged)
    assert "cannot be unpacked" in words(apk)[0]
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert words(package(apk, {name: text}, zipfile.ZIP_STORED)) == ["is not a shared object"]


def test_other_files_are_passed_over_or_refused(tmp_path: Path) -> None:
    text = tmp_path / "script"
    text.write_text("#!/bin/sh\n")
    result = check([tmp_path])
    assert (result["files"], result["passed_over"]) == ([], 1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert check([tmp_path])["passed_over"] == 1
    for path in (text, pipe, tmp_path / "absent", Path("/dev/zero")):
        with pytest.raises(UnreadableInput, match=str(path)):
            check([path])
    with pytest.raises(UsageError, match="base pages of 8 KiB"):
        check([tmp_path], "8KiB")


def test_hostile_headers_are_a_problem_or_pass(tmp_path: Path) -> None:
    library = built(tmp_path / "libanswer.so", 16384)
    whole = library.read_bytes()
    for size in (5, 15, 16, 40, 63, 64, 200):
        library.write_bytes(whole[:size])
        assert words(library), size
    for offset, value, form in [
        (32, 2**64 - 1, "<Q"),  # e_phoff
        (54, 1, "<H"),  # e_phentsize
        (56, 65535, "<H"),  # e_phnum
        (4, 9, "<B"),  # EI_CLASS
    ]:
        raw = bytearray(whole)
        struct.pack_into(form, raw, offset, value)
        library.write_bytes(raw)
        assert words(library), offset

    @settings(max_examples=200, deadline=None)
    @given(st.dictionaries(st.integers(4, 0x400), st.integers(0, 255), max_size=8))
    def any_bytes(changed: dict[int, int]) -> None:
        raw = bytearray(whole)
        for place, byte in changed.items():
            raw[place] = byte
        library.write_bytes(raw)
        check([tmp_path])

    any_bytes()


@pytest.mark.slow
def test_a_problem_of_many_files_is_printed_once(tmp_path: Path) -> None:
    narrow = built(tmp_path / "lib0.so", 4096)
    for number in range(1, 25):
        shutil.copy(narrow, tmp_path / f"lib{number}.so")
    wide = built(tmp_path / "libwide.so", 65536)
    command = [*PAGEWISE, "pagesize", "check", tmp_path]
    diagnostics = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    assert diagnostics.count("fails: ") == diagnostics.count("fix: ") == 1
    assert (
        diagnostics.count(f"  {tmp_path}/lib") == 20
        and "and 5 more, all with --json" in diagnostics
    )
    assert (
        str(wide) not in diagnostics
        and "26 checked" in diagnostics
        and "25 would fail" in diagnostics
    )


@pytest.mark.slow
def test_the_command_names_file_and_fix(tmp_path: Path) -> None:
    narrow = built(tmp_path / "libnarrow.so", 4096)
    command = [*PAGEWISE, "pagesize", "check"]
    run = subprocess.run([*command, narrow], capture_output=True, text=True, timeout=300)
    assert run.returncode == 1
    assert "fails: LOAD segments aligned to 4 KiB" in run.stdout
    assert f"\n  {narrow}\n" in run.stdout and "max-page-size=16384" in run.stdout
    run = subprocess.run(
        [*command, "--page-size", "4KiB", narrow], capture_output=True, text=True, timeout=300
    )
    assert (run.returncode, run.stderr) == (0, "")
    run = subprocess.run([*command, "--json", narrow], capture_output=True, text=True, timeout=300)
    assert (run.returncode, json.loads(run.stdout)["fails"]) == (1, 1)
    run = subprocess.run(
        [*command, tmp_path / "absent"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 3 and "absent" in run.stderr
