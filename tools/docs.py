#!/usr/bin/env python3
"""Builds the documentation site: build/site/index.html, which opens without a network.

    make docs        # or: .venv/bin/python tools/docs.py [--quick] [-o FOLDER]

Copies the pages to build/site-source, adds the reference of the commands and of the Python package,
runs the notebooks, makes a report and its pictures, and runs Sphinx. A broken link, a page that no
menu lists or a notebook that fails ends the build with status 1. --quick leaves out the pictures
and does not run the notebooks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from website import pages, pictures, reference

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "tools/website"


def main() -> int:
    """Builds the site, and returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/site", metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="no pictures; run no notebooks")
    arguments = parser.parse_args()
    output: Path = arguments.output.resolve()
    source = output.with_name(f"{output.name}-source")
    for folder in (output, source):
        refuse_foreign(folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / MARK).touch()
    reference.write(source / "docs")
    shown = [] if arguments.quick else pictures.write(source)
    pages.write(ROOT, source, shown)
    status = sphinx(source, output, runs_notebooks=not arguments.quick)
    if status == 0:
        print(f"{output / 'index.html'}")
    return status


MARK = ".made-by-make-docs"
"""The file that marks a folder as one that this program may empty."""


def refuse_foreign(folder: Path) -> None:
    """Exits if the folder has files that this program did not make."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        sys.exit(f"{folder} has files, and make docs did not make them; remove or name another")


def sphinx(source: Path, output: Path, *, runs_notebooks: bool) -> int:
    """Runs Sphinx with warnings as errors, and returns its exit status."""
    doctrees = source.with_name(f"{source.name}-trees")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--fresh-env"]
    command += ["-b", "html", "-c", str(SETTINGS), "-d", str(doctrees), str(source), str(output)]
    environment = {
        **os.environ,
        "PAGEWISE_ROOT": str(ROOT),
        "PAGEWISE_PAGES": str(source),
        "PAGEWISE_NOTEBOOKS": "force" if runs_notebooks else "off",
        # The warnings of the kernels' protocol name files of this machine.
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    status = subprocess.run(command, env=environment, check=False).returncode
    shutil.rmtree(doctrees, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
