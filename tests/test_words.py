"""Phrases that readers had to read twice stay out of prose, help, comments and messages.

A row has a pattern and what to write instead.
"""

import re
import subprocess
from pathlib import Path

from test_tidy import ROOT, relative, tracked_files

PHRASES = {
    r"\b(is|are|was|were|be|been) (told|said)\b": "use the active voice: `info prints`",
    r"\bnot told\b": "not recorded, not known, unexplained",
    r"\bso many\b": "this many, N, a number of",
    r"\bof late\b": "recently",
    r"\bnobody\b": "name who: no process, no user, no test",
    r"\b(is|are|was|were) not there\b": "is missing, does not exist",
    r"\bit is looked\b|\b(is|are) looked (at|for)\b": "check, read, search (active)",
    r"\bwhoever\b": "name who",
    r"\b(of )?one's own\b": "your own, its own",
    r"\bthe same of\b": "a comment stands alone: repeat what it is",
    r"\b(is|are) taken for\b": "counts as",
    r"\bto be had\b": "available",
    r"(?<!\.)\bforet(old|ells?)\b": "forecast, predicted",
    r"\bhangs on\b": "depends on",
    r"\bheld against\b": "compared with",
    r"\bfor want of\b": "because ... is missing",
    r"\bwhat of\b": "which part of",
    r"\brecording of what\b": "a recording from the files that",
    r"\bgoes? on beside\b": "continues",
    r"\btold apart\b|\bset apart by\b": "distinguished, separated by",
    r"\b(some|any)body (dies|stalls|else)\b": "a process dies, another process",
    r"\boftener\b": "more often",
    r"\bin truth\b|\bdeemed\b": "leave it out; say what is measured",
    r"\bbooked as\b": "counted as",
    r"\bthe pages? alone\b|\bthe (size|device|name|trace) alone\b": "only",
    r"\bof no account\b": "does not matter",
    r"\bknows? the \w+ alone\b|\bfor (\w+,? )+and \w+ alone\b": "only, name what is missing",
    r"\b\w+ alone (is|are|was|were)\b|\b(fields?|head) alone\b": "only",
    r"\banew\b": "again, from the beginning",
    r"\bamid\b": "in the middle of, during",
    r"\bbooks? a\b": "count, add",
    r"\bon every way out\b": "when it ends",
    r"\bhowever many\b": "any number of",
    r"\bbeside (a )?load\b": "under a load of, while builds ran",
    r"\bthe desk's\b": "the Python tests, the machine of a developer",
    r"\bgoes the way\b": "does what ... does, takes the steps of",
    r"\bdevice alone\b": "device only, without a fast tier",
    r"\btells? (none|kills)\b|\bdo(es)? not tell\b": "states, reports, shows, has",
}
SKIPPED = ("tests/golden/", "tests/test_words.py", "Cargo.lock", "lab/package-lock.json", "LICENSE")
SUFFIXES = (
    ".md",
    ".rs",
    ".py",
    ".pyi",
    ".c",
    ".cc",
    ".cpp",
    ".h",
    ".css",
    ".conf",
    ".sh",
    ".toml",
    ".html",
    ".j2",
    ".js",
    ".service",
    ".json",
    "",
)


def test_no_phrase_that_readers_stumble_over() -> None:
    found = []
    for path in files_with_phrases():
        name = relative(path)
        if name.startswith(SKIPPED) or path.suffix not in SUFFIXES:
            continue
        text = path.read_text(errors="replace")
        for pattern, instead in PHRASES.items():
            for match in re.finditer(pattern, text, re.IGNORECASE):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{name}:{line}: {match[0]!r}; write instead: {instead}")
    assert not found, f"{len(found)} phrases\n" + "\n".join(found)


NAME_OF_FUNCTION = re.compile(r"\b(?:fn|def) (\w+)")
NAMES = [*PHRASES, r"\b(told|said)\b"]


def test_no_function_has_such_a_phrase_in_its_name() -> None:
    found = []
    for path in tracked_files():
        name = relative(path)
        if path.suffix not in (".rs", ".py") or name.startswith(SKIPPED):
            continue
        for match in NAME_OF_FUNCTION.finditer(path.read_text()):
            words = match[1].replace("_", " ")
            found += [f"{name}: {match[1]}" for phrase in NAMES if re.search(phrase, words)]
    assert not found, "\n".join(found)


def files_with_phrases() -> list[Path]:
    """The files in which git finds a phrase, in a twentieth of the time that `re` takes."""
    patterns = [word for phrase in PHRASES for word in ("-e", phrase)]
    search = subprocess.run(
        ["git", "grep", "--untracked", "-I", "-l", "-z", "-i", "-P", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    # Without a match, git's status is 1; 128 means that it lacks Perl's patterns.
    if search.returncode > 1:
        return tracked_files()
    return [ROOT / name for name in search.stdout.split("\0") if name]
