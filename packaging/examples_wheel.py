"""Builds the wheel of the examples that the wheels of pagewise leave out, the same bytes each time.

    python packaging/examples_wheel.py OUTPUT

Its name is that of pagewise's distribution with `-examples` at the end. It puts its files beside
those that packaging/examples.txt names, so that the program finds all in one folder
(python/pagewise/shipped.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deb import ROOT, commit_time, placed, project, version

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Recordings, traces and runs of real programs, for {whole}
License-Expression: {license}
License-File: LICENSE
Requires-Dist: {whole}=={version}

README.md in the folder that `pagewise list examples` names describes them.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: pagewise
Root-Is-Purelib: true
Tag: py3-none-any
"""


def main() -> None:
    """Writes the wheel into the folder in the first argument."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = Path(sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        pack = [sys.executable, "-m", "wheel", "pack", "--dest-dir", output, folder]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())}
        subprocess.run(pack, check=True, env=environment)


def name() -> str:
    """The name of the distribution."""
    return f"{project()['name']}-examples"


def fill(tree: Path) -> None:
    """Puts all that the wheel has into the folder ``tree``."""
    about = project()
    metadata = METADATA.format(
        name=name(), version=version(), whole=about["name"], license=about["license"]
    )
    info = tree / f"{name().replace('-', '_')}-{version()}.dist-info"
    placed(info / "METADATA", metadata.encode(), 0o644)
    placed(info / "WHEEL", WHEEL.encode(), 0o644)
    placed(info / "licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)
    for path in left_out():
        placed(tree / "pagewise" / path, (ROOT / path).read_bytes(), 0o644)


def left_out() -> list[str]:
    """The examples that the wheels of pagewise lack, by their paths in the repository."""
    patterns = (ROOT / "packaging/examples.txt").read_text().split()
    # As in a shell, * stays in one folder.
    packaged = set(tracked(*(f":(glob){pattern}" for pattern in patterns)))
    return [path for path in tracked("examples") if path not in packaged]


def tracked(*patterns: str) -> list[str]:
    """The files of the repository that fit."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return listed.removesuffix("\0").split("\0")


if __name__ == "__main__":
    main()
