"""`pagewise advise zram` on sampled pages whose answers follow by hand."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pagewise import _core
from pagewise.advice import zram_pages
from pagewise.advice.zram import advise_zram, pool_share
from pagewise.advice.zram_pages import METADATA_BYTES, parsed
from pagewise.cli import run
from pagewise.commands.advise_zram import described
from pagewise.errors import UnreadableInput, UsageError
from pagewise.units import MIB

GIB = 1024 * MIB


def algorithm(
    pool: float, compress: float, decompress: float, error: float = 1.0
) -> dict[str, Any]:
    return {
        "bytes_per_page": pool,
        "pool_bytes_per_page": pool,
        "pool_bytes_per_page_error": error,
        "us_compress": compress,
        "us_decompress": decompress,
        "size_step_bytes": 64,
        "size_shares": [1.0 if step == int(pool) // 64 else 0.0 for step in range(64)],
    }


def sample(**changes: Any) -> dict[str, Any]:
    part = {
        "pages_resident": 100_000,
        "pages_swapped": 0,
        "pages_sampled": 5000,
        "same_filled_share": 0.2,
        "algorithms": {
            "lz4": algorithm(1280.0, 5.0, 2.0),
            "zstd": algorithm(960.0, 15.0, 5.0),
        },
    }
    found = {
        "schema": "pagewise.pages/1",
        "memory_bytes": GIB,
        "page_bytes": 4096,
        "zram": {"algorithms": ["lzo-rle", "lz4"], "has_recompression": False},
        "total": part,
        "processes": [{**copy.deepcopy(part), "pid": 7, "name": "work"}],
    }
    return {**found, **changes}


def written(folder: Path, found: object) -> str:
    path = folder / "pages.json"
    path.write_text(json.dumps(found))
    return str(path)


def test_the_advice_follows_from_the_sample(tmp_path: Path) -> None:
    advice = advise_zram(written(tmp_path, sample()))
    share = (0.8 * 1280 + METADATA_BYTES) / 4096
    lz4, zstd = advice["candidates"]
    assert (lz4["algorithm"], zstd["algorithm"]) == ("lz4", "zstd")
    assert lz4["pool_share"] == pytest.approx(share)
    # Two standard errors of a byte more, in half of the memory.
    worst = (0.8 * 1282 + METADATA_BYTES) / 4096
    assert advice["collapse_bytes"] == int(GIB / 2 / worst)
    assert advice["algorithm"] == "lz4"
    disksize, limit = advice["disksize_bytes"], advice["limit_bytes"]
    assert disksize is not None and limit is not None
    assert disksize == int(GIB / 2 / worst) // MIB * MIB
    assert disksize * share <= limit <= GIB / 2
    assert lz4["gain_bytes"] == int(disksize * (1 - worst))
    assert lz4["us_per_kib_gained"] == pytest.approx(0.8 * 7 / ((1 - share) * 4))
    assert [each["is_in_kernel"] for each in advice["candidates"]] == [True, False]
    assert "does not have zstd" in advice["warnings"][0]
    by_hand, generator = advice["settings"]
    assert f"echo {disksize // MIB}M > $z/disksize" in by_hand["apply"]
    assert "swapoff" in by_hand["undo"] and "hot_remove" in by_hand["undo"]
    assert f"zram-size = {disksize // MIB}\n" in generator["apply"]
    assert described(advice)


def test_idle_pages_go_first(tmp_path: Path) -> None:
    found = sample(idle={"pages": 40_000.0, "seconds": 60.02, "why": None})
    found["total"]["idle"] = {
        "pages_sampled": 2000,
        "share": 0.4,
        "same_filled_share": 0.5,
        "algorithms": {"lz4": {"pool_bytes_per_page": 800.0}, "zstd": {"bytes_per_page": None}},
    }
    (note,) = (each for each in advise_zram(written(tmp_path, found))["notes"] if "idle" in each)
    # (0.5 * 800 + 24) / 4096.
    assert note.endswith(
        "40.0 % were not accessed for 60 s, and these take 10.4 % of their size in zram"
    )
    del found["total"]["idle"]["algorithms"]["lz4"]
    assert not any("idle" in each for each in advise_zram(written(tmp_path, found))["notes"])
    for field, value in (("share", 1.5), ("share", "much"), ("algorithms", 3)):
        broken = copy.deepcopy(found)
        broken["total"]["idle"][field] = value
        with pytest.raises(UnreadableInput, match=f"total.idle.{field}: expected"):
            advise_zram(written(tmp_path, broken))


def test_memory_on_the_command_line_replaces_that_of_the_sample(tmp_path: Path) -> None:
    path = written(tmp_path, sample())
    whole, half = advise_zram(path), advise_zram(path, memory="512MiB")
    assert whole["collapse_bytes"] and half["collapse_bytes"]
    assert half["collapse_bytes"] * 2 == pytest.approx(whole["collapse_bytes"], abs=2)
    with pytest.raises(UsageError):
        advise_zram(path, memory="1MiB")


def test_the_notes_say_how_to_check_and_that_little_memory_was_sampled(tmp_path: Path) -> None:
    # 1280 bytes of a page of 4096; zramctl does not count the 24 bytes of metadata.
    near = "TOTAL of `zramctl` should be near 31.2 % of DATA, less pages of equal words"
    notes = advise_zram(written(tmp_path, sample()))["notes"]
    assert any(near in note for note in notes)
    assert not any("sample while" in note for note in notes)
    notes = advise_zram(written(tmp_path, sample()), memory="2GiB")["notes"]
    assert any("hold 390.6 MiB, 19.1 % of the memory: sample while" in note for note in notes)
    few = sample()
    few["total"]["pages_sampled"] = 999
    notes = advise_zram(written(tmp_path, few), memory="2GiB")["notes"]
    assert not any("sample while" in note or "to check" in note for note in notes)


def measured(**algorithms: dict[str, Any]) -> dict[str, Any]:
    """A sample of a kernel with these algorithms."""
    found = sample(zram={"algorithms": [name.replace("_", "-") for name in algorithms]})
    for part in (found["total"], *found["processes"]):
        part["algorithms"] = {name.replace("_", "-"): row for name, row in algorithms.items()}
    return found


@pytest.mark.parametrize(
    ("lz4_us", "taken"), [(8.4, "lzo-rle"), (7.2, "lzo-rle"), (7.0, "lz4"), (5.0, "lz4")]
)
def test_cpu_times_within_their_error_leave_the_choice_to_memory(
    lz4_us: float, taken: str, tmp_path: Path
) -> None:
    # For each KiB gained, lzo-rle takes 27 % more time than 7.2 us of lz4, 31 % more than 7.0 us.
    found = measured(lz4=algorithm(1280.0, lz4_us - 2.0, 2.0), lzo_rle=algorithm(1060.0, 7.5, 2.2))
    advice = advise_zram(written(tmp_path, found))
    assert advice["algorithm"] == advice["candidates"][0]["algorithm"] == taken
    is_close = any("between lzo-rle and lz4, the memory gained" in each for each in advice["notes"])
    assert is_close == (taken == "lzo-rle")


def test_of_equal_algorithms_the_default_of_the_kernel_and_then_the_name_decides(
    tmp_path: Path,
) -> None:
    same = algorithm(1280.0, 5.0, 2.0)
    path = written(tmp_path, measured(lzo=same, lzo_rle=same, deflate=same))
    found = [each["algorithm"] for each in advise_zram(path)["candidates"]]
    assert found == ["lzo-rle", "deflate", "lzo"]


def test_an_algorithm_that_the_kernel_lacks_comes_last_and_decides_nothing(tmp_path: Path) -> None:
    found = measured(
        lzo_rle=algorithm(1280.0, 5.0, 2.5),
        lzo=algorithm(1100.0, 7.0, 2.5),
        lz4=algorithm(1300.0, 4.5, 1.5),
    )
    found["zram"]["algorithms"].remove("lz4")
    advice = advise_zram(written(tmp_path, found))
    assert [each["algorithm"] for each in advice["candidates"]] == ["lzo", "lzo-rle", "lz4"]


def test_a_sample_of_little_memory_is_not_called_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, sample())  # 390.6 MiB
    assert advise_zram(path, memory="7GiB")["evidence"]["verdict"] == "enough"
    advice = advise_zram(path, memory="8GiB")
    assert advice["evidence"]["verdict"] == "little memory" and advice["settings"]
    assert not any("hold 390.6 MiB" in note for note in advice["notes"])
    assert run(["advise", "zram", path, "--memory", "8GiB"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("evidence\tlittle memory: the sampled programs hold 4.8 % of memory")
    assert "sample while the programs that matter run" in second


def test_a_user_without_rights_learns_which_file_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zram_pages, "agent", lambda: "/opt/my agents/pagewise-agent")
    monkeypatch.setattr(zram_pages.os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError) as caught:
        advise_zram()
    assert caught.value.hint == (
        "make PAGES as root: `'/opt/my agents/pagewise-agent' pages --all --json > pages.json`; "
        "then `pagewise advise zram pages.json`"
    )


def test_recompression_is_set_up_where_the_kernel_has_it(tmp_path: Path) -> None:
    zram = {"algorithms": ["lz4", "zstd"], "has_recompression": True}
    advice = advise_zram(written(tmp_path, sample(zram=zram)))
    assert "algo=zstd priority=1" in advice["settings"][0]["apply"]
    assert "recompress" in advice["settings"][2]["apply"]
    assert advice["warnings"] == []


def test_pages_that_do_not_compress_get_no_zram(tmp_path: Path) -> None:
    found = sample()
    found["total"] |= {"same_filled_share": 0.0, "algorithms": {"lz4": algorithm(4096.0, 5.0, 2.0)}}
    advice = advise_zram(written(tmp_path, found))
    assert (advice["algorithm"], advice["disksize_bytes"]) == (None, None)
    assert (advice["collapse_bytes"], advice["settings"]) == (0, [])
    assert "gains nothing" in advice["warnings"][0]


@pytest.mark.parametrize(
    ("sampled", "error", "verdict"), [(999, 1.0, "too few pages"), (1000, 64.1, "unsure")]
)
def test_little_evidence_gives_no_size(
    tmp_path: Path, sampled: int, error: float, verdict: str
) -> None:
    found = sample()
    found["total"] |= {
        "pages_sampled": sampled,
        "algorithms": {"lz4": algorithm(1280.0, 5.0, 2.0, 0.5 * error)},
    }
    advice = advise_zram(written(tmp_path, found))
    assert advice["evidence"]["verdict"] == verdict
    assert advice["evidence"]["remedy"] and advice["settings"] == []
    assert advice["disksize_bytes"] is None and advice["collapse_bytes"] is None


def recording(folder: Path, accesses: int, seconds: float) -> Path:
    """Pages of the process `work` that leave and come back at random."""
    numbers = random.Random(1)
    path = folder / "work.csv"
    lines = ["time_s,event,process,page,state,kind"]
    away: set[int] = set()
    for number in range(accesses):
        page = numbers.randrange(2000)
        event = "in" if page in away else "out"
        away ^= {page}
        lines.append(f"{number * seconds / accesses:.6f},{event},10,{page:#x},D,anon")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_recording_is_replayed_into_each_device(tmp_path: Path) -> None:
    trace = recording(tmp_path, 30_000, 300.0)
    advice = advise_zram(written(tmp_path, sample()), trace)
    assert advice["evidence"]["verdict"] == "enough"
    nothing = advice["nothing"]
    assert nothing and nothing["compressed"] == 0 and nothing["slow_writes"] > 10_000
    for each in advice["candidates"]:
        replay = each["replay"]
        assert replay and each["cpu_s"]
        assert replay["compressed"] + replay["same_filled"] == nothing["slow_writes"]
        assert 0.15 < replay["same_filled"] / nothing["slow_writes"] < 0.25
        cpu_us = replay["compressed"] * each["us_compress"]
        cpu_us += replay["decompressed"] * each["us_decompress"]
        assert each["cpu_s"] == pytest.approx(cpu_us / 1e6)
    lz4, zstd = (each["replay"] for each in advice["candidates"])
    assert lz4 and zstd and zstd["pool_bytes_max"] < lz4["pool_bytes_max"]
    # 1280 bytes of each page that is not of equal words.
    stored = lz4["stored_bytes_max"] / 4096
    assert lz4["pool_bytes_max"] == pytest.approx(stored * 0.8 * 1280, rel=0.1)
    assert described(advice)


def test_a_short_recording_gives_no_size(tmp_path: Path) -> None:
    trace = recording(tmp_path, 2000, 10.0)
    advice = advise_zram(written(tmp_path, sample()), trace)
    assert advice["evidence"]["verdict"] == "too short"
    assert advice["settings"] == [] and advice["algorithm"] is None
    remedy = advice["evidence"]["remedy"] or ""
    assert remedy.endswith(f"then `pagewise advise zram {tmp_path}/pages.json work.pgr`")
    remedy = advise_zram(f"{tmp_path}/pages.json", trace, memory="8GiB")["evidence"]["remedy"] or ""
    assert remedy.endswith("pages.json work.pgr --memory 8GiB`")


def test_a_replay_leaves_the_choice_between_close_cpu_times_to_memory(tmp_path: Path) -> None:
    found = measured(lz4=algorithm(1280.0, 5.0, 2.0), lzo_rle=algorithm(1060.0, 5.5, 2.2))
    advice = advise_zram(written(tmp_path, found), recording(tmp_path, 30_000, 300.0))
    lzo_rle, lz4 = advice["candidates"]
    assert advice["algorithm"] == lzo_rle["algorithm"] == "lzo-rle"
    assert lz4["cpu_s"] and lzo_rle["cpu_s"] and lz4["cpu_s"] < lzo_rle["cpu_s"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"schema": "pagewise.info/1"}, "schema"),
        ({"memory_bytes": -1}, "memory_bytes"),
        ({"memory_bytes": True}, "memory_bytes"),
        ({"page_bytes": 1e300}, "page_bytes"),
        ({"processes": 7}, "processes"),
        ({"processes": []}, "processes"),
        ({"processes": [7]}, "processes[0]"),
        ({"total": None}, "total"),
        ({"total": {}}, "total.pages_sampled"),
        ({"zram": []}, "zram"),
    ],
)
def test_an_invalid_file_is_refused_with_the_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        parsed(json.dumps(sample(**change)), "pages.json")
    assert caught.value.position == place
    assert "pages.json" in str(caught.value)


def test_every_damaged_field_is_refused_or_read() -> None:
    wrong: list[Any] = [None, "x", -1, 1e400, [], {}, [[]], float("nan")]
    for field in ("pool_bytes_per_page", "us_compress", "size_step_bytes", "size_shares"):
        for value in wrong:
            found = sample()
            found["total"]["algorithms"]["lz4"][field] = value
            with pytest.raises(UnreadableInput):
                parsed(json.dumps(found), "pages.json")
    for text in ("", "{", "[" * 100_000, "7", "null"):
        with pytest.raises(UnreadableInput):
            parsed(text, "pages.json")


def test_an_absent_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput):
        advise_zram(str(tmp_path / "none.json"))


def test_the_share_counts_pages_of_equal_words_as_metadata() -> None:
    pages = parsed(json.dumps(sample()), "pages.json")
    lz4 = pages.total.algorithms["lz4"]
    assert pool_share(pages.total, lz4, 4096) == pytest.approx((0.8 * 1280 + 24) / 4096)


def test_the_core_refuses_an_invalid_request(tmp_path: Path) -> None:
    trace = recording(tmp_path, 100, 10.0)
    request = json.dumps({"seed": 1, "algorithms": [], "devices": [{"disksize_bytes": 0}]})
    with pytest.raises(UsageError):
        _core.simulate_zram(str(trace), None, None, [], request=request)


@pytest.mark.parametrize("name", ["$(touch x)", "lz4\nEND\ntouch x", "\x1b[31mX", "-n", "", "a b"])
def test_a_name_that_is_no_algorithm_never_reaches_the_settings(tmp_path: Path, name: str) -> None:
    found = sample()
    algorithms = found["total"]["algorithms"]
    algorithms[name] = algorithms["lz4"]
    with pytest.raises(UnreadableInput, match="name of an algorithm"):
        advise_zram(written(tmp_path, found))
    found = sample(zram={"algorithms": ["lz4", name], "has_recompression": True})
    advice = advise_zram(written(tmp_path, found))
    assert not any(name and name in each["apply"] for each in advice["settings"])


@pytest.mark.parametrize("error", [float("nan"), float("inf"), -1200, 10**400, "3", True])
def test_an_impossible_error_is_refused(tmp_path: Path, error: object) -> None:
    found = sample()
    found["total"]["algorithms"]["lz4"]["pool_bytes_per_page_error"] = error
    with pytest.raises(UnreadableInput, match="pool_bytes_per_page_error"):
        advise_zram(written(tmp_path, found))
