"""Runs pagewise-agent on another device, over ssh or adb, and brings its recording back.

The device needs a POSIX shell with cat, chmod, mkdir, mv, rm and uname, which busybox and Android's
toybox have; no scp, no Python, no libraries. The agent stays in a folder there, under a name with
its checksum, so that it is copied once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote
from typing import IO

from pagewise.errors import Missing, PagewiseError, UnwritableOutput, UsageError
from pagewise.installed import agent as installed_agent
from pagewise.scratch import scratch
from pagewise.signals import Ended
from pagewise.storage import refuse_unwritable
from pagewise.terminal import say

MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv7l": "armv7",
    "armv8l": "armv7",
}
"""The agents for what `uname -m` prints."""
ADB = "adb:"
ON_ANDROID = "/data/local/tmp/pagewise"
ELSEWHERE = "${XDG_CACHE_HOME:-$HOME/.cache}/pagewise"
ANSWER_S_MAX = 60
"""Seconds for the steps that only ask the device something. A user may type a password in it."""
ENDING_S_MAX = 60
"""Seconds that the agent may take to end its recording after an interrupt."""
COPIED_BYTES = 1 << 20


class DeviceError(PagewiseError):
    """The device refused a step, or did not answer."""

    exit_status = 3


@dataclass(frozen=True)
class RemoteDevice:
    """A device. ``words`` run the program that reaches it; a line for its shell is added."""

    name: str
    words: tuple[str, ...]
    as_root: str
    """What runs a shell as root there: `sudo -n`, `su 0`, or nothing."""
    has_streams: bool = True
    """Whether the bytes of standard input and output pass unchanged. Otherwise adb copies files."""

    def ask(self, line: str) -> str:
        """What a line of shell prints on the device."""
        try:
            done = subprocess.run(
                [*self.words, line],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ANSWER_S_MAX,
            )
        except FileNotFoundError as error:
            raise Missing(
                f"{self.words[0]} is not installed", hint=packages(self.words[0])
            ) from error
        except subprocess.TimeoutExpired as error:
            raise DeviceError(f"{self.name}: no answer within {ANSWER_S_MAX} s") from error
        if done.returncode != 0:
            answer = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
            raise DeviceError(f"{self.name}: {answer}")
        return done.stdout.strip()

    def root(self, line: str) -> str:
        """The line, run as root if the user asked for that."""
        return f"{self.as_root} sh -c {quote(line)}" if self.as_root else line

    def push(self, path: Path, target: str) -> None:
        """Copies a program to the device, under its name only once it is whole."""
        part = f"{target}.part"
        if self.has_streams:
            with path.open("rb") as file:
                self._piped(f"cat > {quote(part)}", stdin=file)
        else:
            self._adb("push", str(path), part)
        self.ask(f"chmod 755 {quote(part)} && mv {quote(part)} {quote(target)}")

    def pull(self, source: str, path: Path) -> None:
        """Copies a file of the device to ``path``."""
        if self.has_streams:
            with path.open("wb") as file:
                self._piped(self.root(f"cat {quote(source)}"), stdout=file)
        else:
            self.ask(self.root(f"chmod 644 {quote(source)}"))
            self._adb("pull", source, str(path))

    def _piped(
        self,
        line: str,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | None = None,
    ) -> None:
        done = subprocess.run(
            [*self.words, line], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
        )
        if done.returncode != 0:
            answer = done.stderr.decode(errors="replace").strip()
            raise DeviceError(f"{self.name}: cannot copy: {answer or f'status {done.returncode}'}")

    def _adb(self, *words: str) -> None:
        command = [*self.words[:-1], *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise DeviceError(f"{self.name}: cannot copy: {(done.stderr or done.stdout).strip()}")


def packages(program: str) -> str:
    """How to get a program of Debian."""
    return f"sudo apt-get install -y {'adb' if program == 'adb' else 'openssh-client'}"


@contextmanager
def reached(host: str, *, as_root: bool) -> Iterator[RemoteDevice]:
    """The device by its name: `user@host` or an alias of ssh; `adb:` or `adb:SERIAL`."""
    if host.startswith("-") or not host or any(char.isspace() for char in host):
        raise UsageError(
            f"{host!r} is not a host", hint="give USER@HOST, an alias of ssh, or adb:SERIAL"
        )
    if host.startswith(ADB):
        serial = host.removeprefix(ADB)
        words = ("adb", *(("-s", serial) if serial else ()), "shell")
        yield RemoteDevice(host, words, "su 0" if as_root else "", has_streams=False)
        return
    with scratch() as own:
        # One login for all steps: a password is asked for once.
        shared = (
            "-o",
            "ControlMaster=auto",
            "-o",
            f"ControlPath={own}/%C",
            "-o",
            "ControlPersist=60",
        )
        words = ("ssh", "-T", *shared, "--", host)
        try:
            yield RemoteDevice(host, words, "sudo -n" if as_root else "")
        finally:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    ["ssh", *shared, "-O", "exit", "--", host],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=ANSWER_S_MAX,
                )


def agent_for(machine: str, given: str | None) -> Path:
    """The agent that runs on a machine of this name (`uname -m`)."""
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"{given}: no such file", path=given, hint="--agent names the program")
        return path
    wanted = MACHINES.get(machine)
    if wanted is None:
        raise Missing(
            f"no pagewise-agent for a machine of type {machine!r}",
            hint="there are agents for x86_64, aarch64 and armv7; --agent names another program",
        )
    name = f"pagewise-agent-{wanted}"
    here = Path(__file__).resolve().parent
    for path in (here / "agents" / name, here.parents[1] / "dist" / name):
        if path.is_file():
            return path
    own = installed_agent()
    if own is not None and MACHINES.get(os.uname().machine) == wanted:
        return Path(own)
    raise Missing(
        f"{name} is not here",
        hint=f"`make dist-agents` in pagewise's source builds dist/{name}; give it with --agent",
    )


def folder_on(device: RemoteDevice, given: str | None) -> str:
    """The folder of the agent and of recordings on the device, which is made if it is absent."""
    # Root may have another home, so this is asked as the user.
    standard = ELSEWHERE if device.has_streams else ON_ANDROID
    folder = given or device.ask(f'echo "{standard}"')
    device.ask(f"mkdir -p {quote(folder)}")
    return folder


def installed_on(device: RemoteDevice, folder: str, given: str | None) -> str:
    """The agent's path on the device. Copies it there if it is absent."""
    program = agent_for(device.ask("uname -m"), given)
    content = program.read_bytes()
    target = f"{folder}/pagewise-agent-{hashlib.sha256(content).hexdigest()[:16]}"
    if not has(device, "-x", target):
        say(f"copying pagewise-agent to {device.name}: {len(content) >> 10:,} KiB")
        device.push(program, target)
    return target


def has(device: RemoteDevice, test: str, path: str) -> bool:
    """Whether a path on the device passes a test of its shell, such as `-f`."""
    line = f"if test {test} {quote(path)}; then echo yes; else echo no; fi"
    return device.ask(device.root(line)) == "yes"


def ran(device: RemoteDevice, agent: str, arguments: Sequence[str]) -> int:
    """Runs the agent on the device, and returns its exit status."""
    return followed(device, device.root(attended(join([agent, *arguments]))))


def refuse_output(output: Path) -> None:
    """Raises an error if a recording cannot come here. Call it before the device is reached."""
    refuse_unwritable(output)
    # A dangling link also counts as an existing file.
    if os.path.lexists(output):
        raise UsageError(
            f"{output} exists",
            path=str(output),
            hint="name another file: `remote` replaces none",
        )


def recorded(
    device: RemoteDevice, folder: str, agent: str, options: Sequence[str], output: Path
) -> int:
    """Runs `record` on the device, brings the recording back to ``output``, and returns the status.

    Call `refuse_output` first, as a file at ``output`` is replaced.

    An interrupt ends the recording on the device, which comes back too; then the interrupt goes on.
    """
    name = f"{folder}/recording-{os.getpid()}-{os.urandom(4).hex()}.pgr"
    line = join([agent, "record", "-o", name, *options])
    interrupt: Ended | None = None
    status = 0
    try:
        status = followed(device, device.root(attended(line)))
    except Ended as ended:
        interrupt = ended
    if has(device, "-f", name):
        fetched(device, name, output)
    if interrupt is not None:
        raise interrupt
    return status


def fetched(device: RemoteDevice, name: str, output: Path) -> None:
    """Brings a recording back, and removes it from the device once it is here."""
    part = output.with_name(f"{output.name}.part")
    try:
        device.pull(name, part)
        part.rename(output)
    except OSError as error:
        raise UnwritableOutput(
            f"{output}: {error.strerror or error}",
            path=str(output),
            hint=f"the recording is still on {device.name}, in {name}",
        ) from error
    except DeviceError as error:
        raise DeviceError(
            str(error), hint=f"the recording is still on {device.name}, in {name}"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    device.ask(device.root(f"rm -f {quote(name)}"))


def attended(line: str) -> str:
    """A line of shell that ends its program by SIGTERM once its standard input ends.

    That happens at an interrupt here, and when the connection breaks.
    """
    return (
        f"exec 3<&0; {line} </dev/null 3<&- & program=$!; "
        "{ cat <&3 >/dev/null; kill -TERM $program; } 2>/dev/null & watch=$!; exec 3<&-; "
        "wait $program; status=$?; kill $watch 2>/dev/null; exit $status"
    )


def followed(device: RemoteDevice, line: str) -> int:
    """Runs a line on the device, with its output here. An interrupt also ends what runs there."""
    # In a process group of its own, so that Ctrl-C reaches only this process.
    sys.stdout.flush()
    running = subprocess.Popen([*device.words, line], stdin=subprocess.PIPE, process_group=0)
    try:
        return running.wait()
    except BaseException:
        assert running.stdin is not None
        running.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            running.wait(ENDING_S_MAX)
        raise
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
