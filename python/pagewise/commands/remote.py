"""`pagewise remote`: run pagewise-agent on another device, and bring its recording back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pagewise.errors import UsageError
from pagewise.terminal import say

EXAMPLES = (
    "pagewise remote --sudo pi@board record -o work.pgr --for 60s",
    "pagewise remote --sudo adb: record -o phone.pgr --kills --for 5m",
    "pagewise remote pi@board doctor",
)
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""What follows HOST and the own options belongs to the agent."""


def run(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="HOST COMMAND...",
            help="The device: USER@HOST or an alias of ssh, `adb:` or `adb:SERIAL`; then a "
            "command of pagewise-agent with its options. Options of `remote` come before HOST.",
            show_default=False,
        ),
    ],
    sudo: Annotated[
        bool,
        typer.Option("--sudo", help="Run as root: by `sudo -n`, on Android by `su 0`."),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="FILE", help="The agent to copy; default: the one that fits."
        ),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="Where the agent and the recording go on the device; default: ~/.cache/pagewise, "
            "on Android /data/local/tmp/pagewise.",
        ),
    ] = None,
) -> int:
    """Run pagewise-agent on another device, over ssh or adb, and bring its recording back.

    Copies the static agent for the device's processor there, once; the device needs no other
    program of pagewise. `record` writes its recording here. Ctrl-C ends the recording, which comes
    back too.
    """
    from pagewise.remote import folder_on, installed_on, ran, reached, recorded, refuse_output

    host, *arguments = words
    if not arguments or arguments[0].startswith("-"):
        raise UsageError(
            "missing: a command of pagewise-agent after the host",
            hint="for example: pagewise remote pi@board record -o work.pgr --for 60s",
        )
    command, *options = arguments
    output, rest = without_output(options)
    if command == "record" and has_ring(rest):
        raise UsageError(
            "remote brings back one file, so it takes no --ring",
            hint='start it on the device: docs/recording.md, "The last minutes"',
        )
    if command == "record" and output is None:
        raise UsageError("missing: -o FILE", hint="the file here that the recording goes to")
    if command != "record" and output is not None:
        raise UsageError(
            f"{command} cannot write to this machine from a device",
            hint="only `record` brings a file back; without -o, what a command prints comes here",
        )
    if output is not None:
        refuse_output(Path(output))
    with reached(host, as_root=sudo) as device:
        there = folder_on(device, folder)
        program = installed_on(device, there, agent)
        if output is None:
            return ran(device, program, arguments)
        status = recorded(device, there, program, rest, Path(output))
        if Path(output).exists():
            say(f"the recording: {output}", path=output)
        return status


def without_output(options: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of -o or --output before a `--`, and the other words."""
    output: str | None = None
    rest: list[str] = []
    words = iter(options)
    for word in words:
        if word == "--":
            return output, [*rest, word, *words]
        if word in ("-o", "--output"):
            output = next(words, None)
            if output is None:
                raise UsageError(f"{word} needs a file")
        elif word.startswith("--output="):
            output = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--"):
            output = word.removeprefix("-o")
        else:
            rest.append(word)
    return output, rest


def has_ring(options: Sequence[str]) -> bool:
    """Whether --ring is before a `--`."""
    own = options[: options.index("--")] if "--" in options else options
    return any(word.partition("=")[0] == "--ring" for word in own)
