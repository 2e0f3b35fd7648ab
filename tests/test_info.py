"""`pagewise info`: the rows of what a recording lost."""

from terminals import ROOT

from pagewise.commands.info import FROM_BEFORE, lost_records
from pagewise.wrapping import columns


def test_reads_of_what_swap_held_before_are_not_called_lost() -> None:
    source = ROOT / "crates" / "trace" / "src" / "formats" / "swap_events.rs"
    assert f'"{FROM_BEFORE}"' in source.read_text()
    rows = lost_records([{"what": FROM_BEFORE, "count": 1234}, {"what": "records", "count": 5}])
    assert rows == [
        ("from before", "reads of slots written before the recording: 1,234"),
        ("lost records", "5: records"),
    ]


def test_losses_leave_the_values_beside_their_names() -> None:
    what = "device reads of shared memory (MAP_SHARED, tmpfs), whose pages are not recorded"
    rows = [("kind", "swap"), *lost_records([{"what": what, "count": 3882}])]
    for width in (40, 80):
        shown = [name + lines[0] for name, lines in columns(rows, width)]
        assert shown[0] == "kind          swap" and shown[1].startswith("lost records  3,882:")
