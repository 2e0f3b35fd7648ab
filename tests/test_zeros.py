"""Pages of zeros in `info` and the report; no device writes them since Linux 6.12."""

from typing import Any

import pytest
from report_results import analysis

from pagewise.commands.info import zeros_beside_the_kernel
from pagewise.report.inputs import gather
from pagewise.report.model import TableCell
from pagewise.report.panels import data_quality

UNMARKED = "pages of zeros: the recording does not mark them"


def quality(**facts: Any) -> dict[str, TableCell]:
    """The row of a recording with these counts in the report's table of data quality."""
    panel = data_quality.panel(gather([{**analysis("one", 0.5), **facts}]))
    assert panel is not None
    (table, *_) = panel.tables
    return dict(zip((column.name for column in table.columns), table.rows[0], strict=True))


def test_the_report_counts_pages_of_zeros_if_the_recording_marks_them() -> None:
    row = quality(zero_pages={"outs": 123, "ins": 4}, not_recorded=["a clock"])
    assert row["zeros"] == 123 and "zeros" not in str(row["absent"])


def test_the_report_says_if_the_recording_does_not_mark_them() -> None:
    row = quality(not_recorded=[UNMARKED])
    assert row["zeros"] is None
    assert "pages of zeros (no device writes or reads them since Linux 6.12)" in str(row["absent"])
    # An analysis by an earlier pagewise.
    assert "zeros" not in str(quality()["absent"])


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ((None, None), "12,345 out, 6 in"),
        ((12_000, 7), "12,345 out, 6 in; the kernel counted 12,000 and 7"),
    ],
)
def test_info_prints_them_beside_the_kernels_count(
    kernel: tuple[int | None, int | None], text: str
) -> None:
    counts = {"kernel_outs": kernel[0], "kernel_ins": kernel[1]}
    assert zeros_beside_the_kernel({"outs": 12_345, "ins": 6, **counts}) == text
