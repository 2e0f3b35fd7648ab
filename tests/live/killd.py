"""killd as a user runs it on a memory cgroup, and its log, for tests."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent import AGENT

# A wait that takes longer hangs.
HANGS_AFTER_S = 120

SETTINGS = """\
policy = "restart-cost"
[options]
low_percent = 25
high_percent = 40
[sockets]
statistics = "{folder}/killd.sock"
metrics = "{folder}/metrics.sock"
"""


class Killer:
    """A running killd and its log so far. At the end of the ``with`` block it is stopped."""

    def __init__(self, folder: Path, settings: Path) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [AGENT, "killd", "--cgroup", folder, "--config", settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def events(self, event: str) -> list[dict[str, str]]:
        """The log lines of an event, each as its pairs of key and value."""
        lines = [line for line in self.lines if line.startswith(f"event={event} ")]
        return [
            dict(word.split("=", 1) for word in line.split() if "=" in word) | {"line": line}
            for line in lines
        ]

    def until(self, is_done: Callable[[], object]) -> None:
        late = time.monotonic() + HANGS_AFTER_S
        while not is_done():
            assert self.process.poll() is None, "killd has ended"
            assert time.monotonic() < late, f"killd hangs: {self.lines}"
            time.sleep(0.01)

    def __enter__(self) -> "Killer":
        try:
            self.until(lambda: self.events("start"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=HANGS_AFTER_S)
        finally:
            self.process.kill()


def settings(folder: Path, text: str = SETTINGS) -> Path:
    path = folder / "killd.toml"
    path.write_text(text.format(folder=folder))
    return path


def asked(path: Path, question: bytes = b"") -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(HANGS_AFTER_S)
        client.connect(str(path))
        # killd also answers a client that asks late, and closes the connection.
        with contextlib.suppress(BrokenPipeError):
            client.sendall(question)
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()
