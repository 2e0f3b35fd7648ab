"""Cuts the recordings in s0-swap/ and the like from recorded runs of the launch lab; needs cargo.

    python examples/cut_recordings.py build/recordings/s0-swap/swap-file-40-?

For each run ROW/NAME, it writes to examples/ROW/NAME/

- `visits.parquet`, `processes.parquet` and, if there is one, `kills.parquet`, as they are;
- `run.toml` without the folder of the run;
- `recording.pgr`, cut to the movements of pages (crates/trace/src/recording/cut.rs has what that
  leaves out). Nothing is sampled.

It refuses runs that cannot carry a verdict.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from pagewise.launch_runs import RECORDING, TABLES, read_run, refuse_invalid

FOLDER = Path(__file__).resolve().parent
CUT = ("cargo", "run", "--release", "--quiet", "-p", "trace", "--example", "cut_recording", "--")


def cut(run: Path) -> None:
    """Writes the run to its folder here, in place of what is there."""
    refuse_invalid([read_run(run)], allow_invalid=False)
    output = FOLDER / run.parent.name / run.name
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for name in TABLES:
        if (run / name).is_file():
            shutil.copy(run / name, output)
    described = (run / "run.toml").read_text()
    of_run = re.compile(rf"/[^\s\"]*/{re.escape(run.name)}/")
    (output / "run.toml").write_text(of_run.sub("", described))
    if (run / RECORDING).is_file():
        command = [*CUT, run / RECORDING, output / RECORDING]
        subprocess.run(command, cwd=FOLDER.parent, check=True)


def main() -> None:
    for run in map(Path, sys.argv[1:]):
        cut(run.resolve())
        print(run)


if __name__ == "__main__":
    main()
