"""Files are written in a private folder and renamed, so that no other user can plant a link."""

import os
import stat
from pathlib import Path

import pytest

from pagewise.errors import UsageError
from pagewise.storage import refuse_unwritable, replacing


def test_a_link_beside_the_result_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    for name in (f".result.{os.getpid()}.part", f"result.{os.getpid()}.part"):
        (tmp_path / name).symlink_to(victim)
    with replacing(str(tmp_path / "result")) as aside:
        aside.write_text("new")
        assert stat.S_IMODE(aside.parent.stat().st_mode) == 0o700
    assert victim.read_text() == "untouched"
    assert (tmp_path / "result").read_text() == "new"
    assert not list(tmp_path.glob(".pagewise-*"))


def test_a_link_in_the_place_of_the_result_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "result").symlink_to(victim)
    with replacing(str(tmp_path / "result")) as aside:
        aside.write_text("new")
    assert victim.read_text() == "untouched" and not (tmp_path / "result").is_symlink()


def test_a_link_that_leads_nowhere_is_not_replaced_without_force(tmp_path: Path) -> None:
    link = tmp_path / "result"
    link.symlink_to("absent")
    with pytest.raises(UsageError, match="exists"):
        refuse_unwritable(link, force=False)
    refuse_unwritable(link, force=True)


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_follows_the_umask(tmp_path: Path, mask: int, expected: int) -> None:
    before = os.umask(mask)
    try:
        with replacing(str(tmp_path / "result")) as aside:
            aside.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == expected


def test_a_failed_write_leaves_the_old_result_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "result").write_text("old")
    with pytest.raises(ValueError), replacing(str(tmp_path / "result")) as aside:
        aside.write_text("half")
        raise ValueError
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert (tmp_path / "result").read_text() == "old"
