"""Recipes of recordings: what to switch on in each recorder, by question."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

SECONDS = 60
"""How long a recording by a recipe lasts."""

SCHEDULING = ("sched/sched_switch", "sched/sched_waking", "sched/sched_blocked_reason")
TASKS = (
    "task/task_newtask",
    "task/task_rename",
    "sched/sched_process_exit",
    "sched/sched_process_fork",
)
RECLAIM = (
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
)
PAGE_CACHE = ("filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_delete_from_page_cache")
BLOCK = ("block/block_rq_issue", "block/block_rq_complete")
KILLS = ("oom/mark_victim", "oom/oom_score_adj_update", "signal/signal_generate")
SIZES = "kmem/rss_stat"
"""Resident and swapped memory of processes, when it changes."""


@dataclass(frozen=True)
class Recipe:
    """What answers a question."""

    name: str
    summary: str
    ftrace: tuple[str, ...]
    """Kernel events, as group/event; `events` leaves out those of Android's kernels only."""
    bpftrace: str
    """A program that answers the question by itself, in short."""
    atrace: tuple[str, ...] = ()
    """Categories of Android's own markers."""
    apps: tuple[str, ...] = ()
    """Processes whose markers are wanted."""
    has_processes: bool = False
    """Whether the memory of processes is sampled."""
    has_counters: bool = False
    """Whether meminfo, vmstat and PSI are sampled."""
    has_log: bool = False
    """Whether Android's log is recorded."""
    has_answer_in_log: bool = False
    """Whether Android's log, which needs no recorder, answers a part of the question."""

    def perfetto(self) -> str:
        """The configuration for `perfetto --txt -c CONFIG -o TRACE`."""
        lines = ["buffers {", "  size_kb: 131072", "  fill_policy: RING_BUFFER", "}"]
        ftrace = [f'ftrace_events: "{event}"' for event in self.ftrace]
        ftrace += [f'atrace_categories: "{category}"' for category in self.atrace]
        ftrace += [f'atrace_apps: "{app}"' for app in self.apps]
        ftrace += ["buffer_size_kb: 16384", "compact_sched {", "  enabled: true", "}"]
        lines += source("linux.ftrace", "ftrace_config", ftrace)
        samples = ["scan_all_processes_on_start: true"]
        if self.has_processes:
            samples.append("proc_stats_poll_ms: 1000")
        lines += source("linux.process_stats", "process_stats_config", samples)
        if self.has_counters:
            periods = ("meminfo_period_ms", "vmstat_period_ms", "psi_period_ms")
            counters = [f"{period}: 1000" for period in periods]
            lines += source("linux.sys_stats", "sys_stats_config", counters)
        if self.has_log:
            logs = ["log_ids: LID_DEFAULT", "log_ids: LID_SYSTEM", "log_ids: LID_EVENTS"]
            lines += source("android.log", "android_log_config", logs)
        lines += [f"duration_ms: {SECONDS * 1000}", "write_into_file: true"]
        lines += ["file_write_period_ms: 2500", "flush_period_ms: 10000"]
        return "\n".join(lines)

    def trace_cmd(self) -> str:
        """The command that records the kernel events with trace-cmd, and Android's markers."""
        options = " ".join(f"-e {event}" for event in self.events())
        return self.with_markers(f"trace-cmd record -C boot {options} sleep {SECONDS}")

    def tracefs(self) -> str:
        """The commands that record the kernel events, and Android's markers, as text."""
        # A recorder that ran before, such as atrace, may have left tracing off.
        return self.with_markers(
            "cd /sys/kernel/tracing; echo boot > trace_clock; echo 1 > tracing_on; "
            f"echo {' '.join(self.events())} > set_event; "
            f"timeout {SECONDS} cat trace_pipe > /tmp/trace.txt; echo > set_event"
        )

    def with_markers(self, recorder: str) -> str:
        """Commands that record, with Android's markers on meanwhile if the recipe has any.

        Recorders of kernel events see them, as they go through trace_marker. atrace goes first:
        it resets the events and the clock. Its end prints its own buffer.
        """
        if not self.atrace:
            return recorder
        apps = f"-a {quote(','.join(self.apps))} " if self.apps else ""
        start = f"atrace --async_start {apps}{' '.join(self.atrace)}"
        return f"{start}; {recorder}; atrace --async_stop > /dev/null"

    def logcat(self) -> str | None:
        """The command that saves Android's log; None if the log does not answer the question."""
        return "adb logcat -b all -d -v threadtime > log.txt" if self.has_answer_in_log else None

    def procfs(self) -> str | None:
        """The loop that records counters of /proc; None if the question needs none."""
        if not self.has_counters:
            return None
        files = "/proc/vmstat /proc/meminfo /proc/pressure/memory"
        return f"while sleep 1; do date +%s; cat {files}; done > proc.txt"

    def events(self) -> list[str]:
        """The kernel events as group:event, without those of Android's kernels only."""
        of_android = ("sched/sched_blocked_reason",)
        events = [event for event in self.ftrace if event not in of_android]
        return [event.replace("/", ":") for event in events]


def source(name: str, message: str, settings: list[str]) -> list[str]:
    """The lines of a data source with its settings."""
    inner = [f"      {line}" for line in settings]
    return [
        "data_sources {",
        "  config {",
        f'    name: "{name}"',
        f"    {message} {{",
        *inner,
        "    }",
        "  }",
        "}",
    ]


RECIPES = (
    Recipe(
        "launches",
        "when apps were launched, and what the launches waited for",
        (*SCHEDULING, *TASKS, *RECLAIM, *PAGE_CACHE, *BLOCK, *KILLS, SIZES),
        'tracepoint:sched:sched_process_exec { printf("%d %s\\n", pid, str(args.filename)); }',
        atrace=("am", "wm", "dalvik", "view"),
        apps=("*",),
        has_counters=True,
        has_answer_in_log=True,
    ),
    Recipe(
        "kills",
        "which processes were killed, why, and how much memory was free",
        (*TASKS, *KILLS, SIZES),
        'tracepoint:oom:mark_victim { time(); printf(" %d\\n", args.pid); }',
        atrace=("am",),
        apps=("lmkd", "system_server"),
        has_processes=True,
        has_counters=True,
        has_log=True,
        has_answer_in_log=True,
    ),
    Recipe(
        "pressure",
        "when memory was reclaimed and who stalled for it",
        (*SCHEDULING, *RECLAIM, *PAGE_CACHE),
        "tracepoint:vmscan:mm_vmscan_direct_reclaim_begin { @[comm] = count(); }",
        has_processes=True,
        has_counters=True,
    ),
    Recipe(
        "page-cache",
        "which pages of files entered and left memory",
        PAGE_CACHE,
        "tracepoint:filemap:mm_filemap_add_to_page_cache { @[args.s_dev, args.i_ino] = count(); }",
    ),
    Recipe(
        "block",
        "which requests went to block devices",
        BLOCK,
        "tracepoint:block:block_rq_issue { @[args.dev, args.rwbs] = count(); }",
    ),
)
"""Every recipe."""
