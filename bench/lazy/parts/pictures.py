"""ImageMagick and ffmpeg as whole processes, including their start and their input files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from lazy.allocators import ComparedAllocator
from lazy.part import Part
from lazy.places import BINARIES, INPUTS
from lazy.running import start
from lazy.store import Figures

COMMANDS = {
    "ImageMagick": [
        "/usr/bin/convert-im6.q16",
        str(INPUTS / "photo.jpg"),
        *("-resize", "1600x1067", "-blur", "0x2", "-modulate", "110,120"),
        "ppm:-",
    ],
    "ffmpeg": [
        *("/usr/bin/ffmpeg", "-v", "error", "-f", "lavfi"),
        *("-i", "testsrc2=size=1920x1080:rate=30", "-frames:v", "60"),
        *("-vf", "scale=1280:720,hflip,scale=640:360", "-f", "null", "-"),
    ],
}
QUIET = ["sh", "-c", 'exec "$@" >/dev/null', "sh"]


def run_command(program: str, allocator: ComparedAllocator) -> Figures:
    """Runs the program to its end; its figures come in a file."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "figures"
        before = [*QUIET, str(BINARIES / "measured"), str(output)]
        start(allocator, COMMANDS[program], before=before)()
        figures: Figures = json.loads(output.read_text())
    return figures


PART = Part("programs", tuple(COMMANDS), run_command, rounds=3)
