"""The examples that ship, and what to do about one that is not installed.

The package of pagewise has some of them. A package of data (packaging/examples_wheel.py) puts the
others into the same folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pagewise
from pagewise.errors import UsageError

FOLDER = "examples"
DATA = "-examples"
"""The end of the data package's name, after the name of the package of pagewise."""
DEBIAN = Path("/usr/lib/pagewise")
"""The folder of Debian's package of pagewise. No package of Debian's has the other examples."""


def examples_folder() -> Path:
    """The folder of the examples: in the installed packages, else in the source tree."""
    own = Path(pagewise.__file__).resolve().parent
    for folder in (own / FOLDER, own.parent.parent / FOLDER, Path(FOLDER)):
        if folder.is_dir():
            return folder
    raise UsageError(
        "the recordings are not here", hint="run in the source tree, or give --recordings FOLDER"
    )


def lacking_package() -> str | None:
    """The name of the data package if it is not installed beside the package of pagewise.

    None if it is, in the source tree, which has all examples, and in Debian's package.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    from pagewise.installed import package

    own, folder = package(), Path(pagewise.__file__).resolve().parent
    if own is None or folder.is_relative_to(DEBIAN) or not (folder / FOLDER).is_dir():
        return None
    name = f"{own['name']}{DATA}"
    try:
        distribution(name)
    except PackageNotFoundError:
        return name
    return None


def place_of(path: str) -> Path | None:
    """Where the example that a missing file names is, if it is installed; None for other files.

    An example is named as in the source tree, ``examples/phone-1g``, or by its installed path.
    """
    asked = Path(path)
    if os.path.exists(asked):
        return None
    try:
        folder = examples_folder()
    except UsageError:
        return None
    if asked.parts[:1] == (FOLDER,):
        return folder.joinpath(*asked.parts[1:])
    return asked if asked.is_relative_to(folder) else None
