"""`pagewise list recipes`: Perfetto accepts the configurations, and info knows their events."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from pagewise.recipes import RECIPES, Recipe

PAGEWISE = Path(sys.executable).with_name("pagewise")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_configuration_is_parsed_back(recipe: Recipe) -> None:
    config = text_format.Parse(recipe.perfetto(), protos.TraceConfig())
    sources = {source.config.name: source.config for source in config.data_sources}
    ftrace = sources["linux.ftrace"].ftrace_config
    assert tuple(ftrace.ftrace_events) == recipe.ftrace
    assert ftrace.compact_sched.enabled
    assert config.duration_ms == 60_000
    assert ("linux.sys_stats" in sources) == recipe.has_counters
    known = {field.name for field in protos.FtraceEvent.DESCRIPTOR.fields}
    assert {event.split("/")[1] for event in recipe.ftrace} <= known


def test_the_list_has_every_recipe_whole() -> None:
    listed = subprocess.check_output([PAGEWISE, "list", "recipes"], text=True, timeout=60)
    rows = subprocess.check_output([PAGEWISE, "list", "recipes", "--json"], text=True, timeout=60)
    assert [row["name"] for row in json.loads(rows)["recipes"]] == [row.name for row in RECIPES]
    for recipe in RECIPES:
        assert recipe.perfetto() in listed
        assert recipe.trace_cmd() in listed.splitlines()
        assert recipe.tracefs() in listed.splitlines()
        for line in (recipe.logcat(), recipe.procfs()):
            assert line is None or line in listed.splitlines()


def test_the_log_and_proc_are_recipes_where_a_command_reads_them() -> None:
    """``pressure`` reads counters, ``kills`` and ``launches`` the log (docs/system-traces.md)."""
    logged = {recipe.name for recipe in RECIPES if recipe.logcat()}
    counted = {recipe.name for recipe in RECIPES if recipe.procfs()}
    assert logged == {"launches", "kills"}
    assert counted == {"launches", "kills", "pressure"}
    for recipe in RECIPES:
        events = recipe.tracefs().split(" > set_event")[0].split("echo ")[-1].split()
        assert events == recipe.events() and all(event.count(":") == 1 for event in events)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recorders_of_kernel_events_have_the_markers_and_events_of_the_configuration(
    recipe: Recipe,
) -> None:
    """Only sched_blocked_reason is left out: stock Linux 6.1 and 6.12 lack it."""
    of_android = "sched:sched_blocked_reason"
    for line in (recipe.trace_cmd(), recipe.tracefs()):
        commands = line.split("; ")
        assert ("atrace" in line) == bool(recipe.atrace)
        if recipe.atrace:
            first = shlex.split(commands[0])
            assert first[:2] == ["atrace", "--async_start"]
            assert first[2:] == ["-a", ",".join(recipe.apps), *recipe.atrace]
            assert commands[-1] == "atrace --async_stop > /dev/null"
        stock = {event.replace("/", ":") for event in recipe.ftrace} - {of_android}
        assert {word for word in line.split() if word.count(":") == 1} == stock


def test_markers_and_scores_are_recorded_for_launches_and_kills() -> None:
    for name in ("launches", "kills"):
        (recipe,) = (recipe for recipe in RECIPES if recipe.name == name)
        assert "am" in recipe.atrace
        assert "oom:oom_score_adj_update" in recipe.events()


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (
            "launches",
            "sched_switch sched_waking sched_blocked_reason mm_vmscan_direct_reclaim_begin "
            "mm_vmscan_memcg_reclaim_begin mm_vmscan_memcg_reclaim_end "
            "mm_filemap_add_to_page_cache mm_filemap_delete_from_page_cache rss_stat "
            "signal_generate",
        ),
        ("kills", "signal_generate mark_victim rss_stat oom_score_adj_update sched_process_exit"),
        (
            "pressure",
            "mm_vmscan_direct_reclaim_begin mm_vmscan_kswapd_wake mm_filemap_add_to_page_cache "
            "mm_filemap_delete_from_page_cache sched_switch",
        ),
    ],
)
def test_the_recipe_of_a_command_records_what_the_command_misses(name: str, events: str) -> None:
    """The events of `The trace lacks`, except those that only old kernels have."""
    (recipe,) = (recipe for recipe in RECIPES if recipe.name == name)
    assert set(events.split()) <= {event.split("/")[1] for event in recipe.ftrace}
