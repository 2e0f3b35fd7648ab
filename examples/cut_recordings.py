"""Cuts the recordings in s0-swap/ and the like from recorded runs of the launch lab; needs cargo.

    python examples/cut_recordings.py build/recordings/s0-swap/swap-file-40-?
    python examples/cut_recordings.py --swap-only build/recordings/s1-rotation/swap-file-40-?
    python examples/cut_recordings.py --no-recording --to docs/studies/runs build/recordings/ROW/*-?

For each run ROW/NAME, it writes to examples/ROW/NAME/, or to ROW/NAME/ in the folder after --to:

- `visits.parquet`, `processes.parquet` and, if there is one, `kills.parquet`, as they are;
- `run.toml` without the folder of the run;
- `recording.pgr`, cut to the movements of pages (crates/trace/src/recording/cut.rs has what that
  leaves out), with --swap-only to those of swap; absent with --no-recording. Nothing is sampled.

The finished folder takes the place of what is there. Runs that cannot carry a verdict are refused.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pagewise.errors import PagewiseError, UsageError
from pagewise.launch_runs import RECORDING, TABLES, read_run, refuse_invalid

FOLDER = Path(__file__).resolve().parent
CUT = ("cargo", "run", "--release", "--quiet", "-p", "trace", "--example", "cut_recording", "--")


def cut(
    run: Path, to: Path = FOLDER, *, has_recording: bool = True, swap_only: bool = False
) -> None:
    """Writes the run to its folder in ``to``, with its recording if ``has_recording``, which lacks
    the pages of files if ``swap_only``.

    Raises UsageError for the folder itself and for runs that cannot carry a verdict,
    UnreadableInput for what is no run, and CalledProcessError if the cutter fails.
    """
    output = to / run.parent.name / run.name
    if output.resolve() == run.resolve():
        raise UsageError(
            f"{run}: the run is already in {to}",
            path=str(run),
            hint="give a run as the lab recorded it, outside this folder",
        )
    found = read_run(run)
    refuse_invalid([found], allow_invalid=False)
    if found.invalid_because is None:
        raise UsageError(
            f"{run}: run.toml does not say whether the run is valid",
            path=str(run),
            hint="record its plan again with this version of pagewise-agent",
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    # A sibling, so that the finished folder can be renamed.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{run.name}-") as beside:
        written = Path(beside) / run.name
        written.mkdir()
        _write(run, written, has_recording, swap_only)
        if output.exists():
            output.rename(Path(beside) / "before")
        written.rename(output)


def _write(run: Path, output: Path, has_recording: bool, swap_only: bool) -> None:
    for name in TABLES:
        if (run / name).is_file():
            shutil.copy(run / name, output)
    described = (run / "run.toml").read_text()
    of_run = re.compile(rf"/[^\s\"]*/{re.escape(run.name)}/")
    (output / "run.toml").write_text(of_run.sub("", described))
    if has_recording and (run / RECORDING).is_file():
        options = ["--swap-only"] if swap_only else []
        command = [*CUT, *options, run / RECORDING, output / RECORDING]
        subprocess.run(command, cwd=FOLDER.parent, check=True)


def main(words: list[str]) -> int:
    """Cuts the runs and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a folder of a run")
    parser.add_argument("--to", type=Path, default=FOLDER, help="default: examples/")
    parser.add_argument("--no-recording", action="store_true", help="leave out the recording")
    parser.add_argument("--swap-only", action="store_true", help="leave out the pages of files")
    given = parser.parse_args(words)
    for run in given.runs:
        try:
            cut(
                run.resolve(),
                given.to,
                has_recording=not given.no_recording,
                swap_only=given.swap_only,
            )
        except PagewiseError as error:
            print(
                f"cut_recordings: {error}",
                *([error.hint] if error.hint else []),
                sep="\n  ",
                file=sys.stderr,
            )
            return 3
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"cut_recordings: {run}: not cut: {error}", file=sys.stderr)
            return 3
        print(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
