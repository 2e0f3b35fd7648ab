"""Swipes a page in WebKitGTK and measures its web process; runs under the allocator in question.

swipe.py PAGE SWIPES WARM_UPS IDLE_SECONDS      (Debian's own python3; wants root, and a display)

A swipe starts with a turn of the mouse wheel sent to the display, and ends with the last frame
drawn by the view before a pause. Prints one JSON object, then another after the idle time.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

os.environ["GDK_BACKEND"] = "x11"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("WebKit2", "4.1")
# Without it GTK calls no `draw` handler: python3-gi-cairo.
gi.require_foreign("cairo")

from gi.repository import GLib, Gtk, WebKit2  # noqa: E402
from lazy.counters import Sampler, Traps  # noqa: E402

WIDTH, HEIGHT = 412, 915
WHEEL_UP, WHEEL_DOWN = 4, 5
SAME_WAY = 5
SETTLE_MS, PAUSE_MS, LOOK_MS, QUIET_S, HUNG_S = 2000, 150, 50, 0.25, 60
SAMPLE_S = 0.0005
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPU_CLOCK = 2
"""The kind of a process's clock that counts CPU time in nanoseconds."""


class Wheel:
    """The mouse wheel of the display."""

    def __init__(self) -> None:
        self.x11, self.tests = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXtst.so.6")
        self.x11.XOpenDisplay.restype = ctypes.c_void_p
        self.display = ctypes.c_void_p(self.x11.XOpenDisplay(None))
        self.tests.XTestFakeMotionEvent(self.display, -1, WIDTH // 2, HEIGHT // 2, 0)

    def turn(self, button: int) -> None:
        """Turns the wheel by one notch."""
        for is_pressed in (1, 0):
            self.tests.XTestFakeButtonEvent(self.display, button, is_pressed, 0)
        self.x11.XFlush(self.display)


class Watched:
    """The web process."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.traps = Traps(process)

    def cpu_s(self) -> tuple[float, float]:
        """User and system time of all its threads."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / TICKS_PER_S, int(fields[12]) / TICKS_PER_S

    def bytes(self, file: str, line: str) -> int | None:
        """A line of a file in its folder of /proc, in bytes; None without such a line."""
        lines = Path(f"/proc/{self.process}/{file}").read_text().splitlines()
        found = next((found for found in lines if found.startswith(line)), None)
        return None if found is None else int(found.split()[1]) * 1024


def busy_s(processes: Iterable[int]) -> float:
    """CPU time of processes, without the ticks' rounding of `Watched.cpu_s`."""
    return sum(time.clock_gettime_ns(~process << 3 | CPU_CLOCK) for process in processes) / 1e9


def named(name: str) -> Iterator[tuple[int, int]]:
    """Processes of this name, and the parent of each."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue
        if head.endswith(f"({name}"):
            yield int(folder.name), int(rest.split()[1])


def web_process() -> int:
    """The child process that renders."""
    for process, parent in named("WebKitWebProces"):
        if parent == os.getpid():
            return process
    raise RuntimeError("WebKit has started no web process")


class Session:
    """One page, swiped many times."""

    def __init__(self, page: str, swipes: int, warm_ups: int, idle_s: float) -> None:
        self.swipes, self.warm_ups, self.idle_s = swipes, warm_ups, idle_s
        self.done: list[dict] = []
        self.start_s = time.monotonic()
        self.drawn: list[tuple[float, int]] = []
        self.workers: list[int] = []
        self.busy_s = self.busy_at_frame_s = 0.0
        self.is_timeline = False
        self.view = WebKit2.WebView()
        never = WebKit2.HardwareAccelerationPolicy.NEVER
        self.view.get_settings().set_property("hardware-acceleration-policy", never)
        window = Gtk.Window()
        window.set_default_size(WIDTH, HEIGHT)
        window.add(self.view)
        window.show_all()
        self.view.connect_after("draw", self.on_draw)
        self.view.connect("notify::title", self.on_title)
        self.view.connect("load-changed", self.on_load)
        self.view.load_uri(Path(page).resolve().as_uri())
        GLib.timeout_add_seconds(1, self.end_if_hung)

    def on_load(self, _: object, event: object) -> None:
        """Begins when the page is loaded and settled."""
        if event == WebKit2.LoadEvent.FINISHED:
            GLib.timeout_add(SETTLE_MS, self.begin)

    def begin(self) -> bool:
        """Finds the process to measure."""
        self.wheel, self.web = Wheel(), Watched(web_process())
        displays = [process for process, _ in named("Xvfb")]
        # With several displays, no process says which is this one's.
        displays = displays if len(displays) == 1 else []
        self.workers = [self.web.process, os.getpid(), *displays]
        self.sampler = Sampler(SAMPLE_S)
        return self.swipe()

    def swipe(self) -> bool:
        """Sends the input event of the next swipe; the last one is for its timeline."""
        self.is_timeline = len(self.done) == self.swipes + self.warm_ups
        self.sampler.take()
        self.cpu_s, self.traps, self.drawn = self.web.cpu_s(), self.web.traps.count(), []
        self.busy_s = self.busy_at_frame_s = busy_s(self.workers)
        self.start_s = time.monotonic()
        is_down = (len(self.done) // SAME_WAY) % 2 == 0
        self.wheel.turn(WHEEL_DOWN if is_down else WHEEL_UP)
        return False

    def on_draw(self, *_: object) -> bool:
        """Records a painted frame."""
        traps = self.web.traps.count() - self.traps if self.is_timeline else 0
        self.drawn.append((time.monotonic(), traps))
        self.busy_at_frame_s = busy_s(self.workers)
        return False

    def on_title(self, *_: object) -> None:
        """Records that the last step was made."""
        if (self.view.get_title() or "").startswith("swiped"):
            GLib.timeout_add(LOOK_MS, self.look)

    def look(self) -> bool:
        """Ends the swipe when no frame has come for a while."""
        if not self.drawn or time.monotonic() - self.drawn[-1][0] < QUIET_S:
            return True
        self.done.append(self.figures())
        if self.is_timeline:
            self.rest()
        else:
            GLib.timeout_add(PAUSE_MS, self.swipe)
        return False

    def figures(self) -> dict:
        """The figures of the swipe."""
        end_s = self.drawn[-1][0]
        samples = [
            sample
            for sample in self.sampler.take()
            if sample.process == self.web.process and self.start_s <= sample.time_s <= end_s
        ]
        in_fault = [sample for sample in samples if sample.is_in_fault]
        main = sum(sample.thread == self.web.process for sample in in_fault)
        user_s, system_s = (
            after - before for after, before in zip(self.web.cpu_s(), self.cpu_s, strict=True)
        )
        return {
            "response_s": end_s - self.start_s,
            "busy_s": self.busy_at_frame_s - self.busy_s,
            "held_bytes": self.web.bytes("status", "LazyUnmapped:"),
            "traps": self.web.traps.count() - self.traps,
            "user_s": user_s,
            "system_s": system_s,
            "samples": len(samples),
            "fault_samples": len(in_fault),
            "fault_s": len(in_fault) * self.sampler.period_s,
            "main_fault_s": main * self.sampler.period_s,
            "call_s": sum(sample.is_in_call for sample in samples) * self.sampler.period_s,
            "frames": len(self.drawn),
            "timeline": [(at - self.start_s, traps) for at, traps in self.drawn]
            if self.is_timeline
            else None,
        }

    def end_if_hung(self) -> bool:
        """Exits with the state if a swipe, or the page, takes far longer than normal."""
        if time.monotonic() - self.start_s > HUNG_S + self.idle_s:
            frames, title = len(self.drawn), self.view.get_title()
            sys.exit(f"swipe {len(self.done)} has no end: {frames} frames, the title is {title!r}")
        return True

    def rest(self) -> None:
        """Prints the figures, and reads the memory again after an idle time."""
        figures = {
            "swipes": self.done[self.warm_ups : -1],
            "timeline": self.done[-1],
            "peak_bytes": self.web.bytes("status", "VmHWM:"),
            "freed_bytes": self.web.bytes("smaps_rollup", "Rss:"),
        }
        print(json.dumps(figures), flush=True)
        GLib.timeout_add(int(self.idle_s * 1000), self.end)

    def end(self) -> bool:
        """Prints the idle figures, and ends."""
        print(json.dumps({"idle_bytes": self.web.bytes("smaps_rollup", "Rss:")}), flush=True)
        Gtk.main_quit()
        return False


def main() -> None:
    page, swipes, warm_ups, idle_s = sys.argv[1:]
    session = Session(page, int(swipes), int(warm_ups), float(idle_s))
    Gtk.main()
    if not session.done:
        sys.exit("no swipe was done")


if __name__ == "__main__":
    main()
