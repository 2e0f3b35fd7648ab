"""The report in a real browser: without errors, and readable at every width."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_results import analysis, everything, study

import pagewise as pw

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]

WIDE, PHONE = 1440, 360
ROOT = Path(__file__).parents[1]
SWAP = "advise swap examples/phone-1g-long/phone-1g-long.pgr --fast zram-lz4 --slow ufs-3.1"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "report.html"
    pw.report(everything(), output, command="pagewise report")
    return output


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """The report in a window, with its errors and its requests to the network."""

    def __init__(self, browser: "sync_api.Browser", report: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())
        self.page.wait_for_selector("html[data-ready]")


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("wide", WIDE, "light"), ("phone", PHONE, "light"), ("dark", WIDE, "dark")],
)
def test_the_page_opens_without_errors_and_fits(
    browser: "sync_api.Browser", report: Path, name: str, width: int, scheme: str
) -> None:
    opened = Opened(browser, report, width, scheme)
    page = opened.page
    assert page.locator(".chart svg").count() == page.locator(".chart").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark_ground = (
        page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    )
    assert dark_ground == (scheme == "dark")
    picture = report.with_name(f"{name}.png")
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 50_000
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    opened.context.close()


def test_a_series_can_be_switched_off(browser: "sync_api.Browser", report: Path) -> None:
    opened = Opened(browser, report, WIDE, "light")
    page = opened.page
    group = page.locator(".chart-group", has=page.locator("#architectures-io-time"))
    entry = group.get_by_role("button", name="adaptive")
    charts = "#architectures-io-time, #architectures-wear"

    def strokes(color: str) -> list[int]:
        return page.eval_on_selector_all(
            charts,
            "(nodes, color) => nodes.map("
            "(node) => node.querySelectorAll(`svg path[stroke='${color}']`).length)",
            color,
        )

    color = entry.locator("svg path").first.get_attribute("stroke")
    assert color and min(strokes(color)) > 0
    entry.focus()
    page.keyboard.press("Enter")
    assert entry.get_attribute("aria-pressed") == "false"
    page.wait_for_function(
        "(color) => !document.querySelector(`#architectures-wear svg path[stroke='${color}']`)",
        arg=color,
    )
    assert max(strokes(color)) == 0
    entry.click()
    assert entry.get_attribute("aria-pressed") == "true"
    assert opened.complaints == []
    opened.context.close()


def test_tables_download_and_views_switch(browser: "sync_api.Browser", report: Path) -> None:
    opened = Opened(browser, report, WIDE, "light")
    page = opened.page
    page.get_by_text("By process").first.click()
    with page.expect_download() as download:
        page.locator("button[data-table='skew-by-process']").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0].startswith("recording,accesses,pages,top_0.01")
    assert len(lines) == 5
    page.locator("#architectures select").select_option("1")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".verdict details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".verdict details[open]").count() == 0
    assert opened.complaints == []
    opened.context.close()


def test_copy_gives_settings_and_their_undo_as_the_json_has_them(
    browser: "sync_api.Browser", tmp_path: Path
) -> None:
    command = [Path(sys.executable).with_name("pagewise"), *SWAP.split(), "--json"]
    advice = json.loads(subprocess.check_output(command, cwd=ROOT, timeout=300))
    # Characters that HTML, or the handling of units on a page, could change.
    odd = "echo 4 MiB 5 % 6 s  'two  blanks' <b> &amp; \"$x\"\n\ttab \\\n  end"
    advice["settings"].append({"title": "Odd", "note": "", "apply": odd, "undo": f"{odd}\n"})
    drawn = tmp_path / "report.html"
    pw.report([advice], drawn)
    opened = Opened(browser, drawn, WIDE, "light")
    page = opened.page
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {"
        "writeText: async (text) => { window.copied = text; }}})"
    )
    page.eval_on_selector_all("details", "(all) => all.forEach((one) => { one.open = true; })")
    assert page.locator("button[data-copy]").count() == 2 * len(advice["settings"])
    for number, setting in enumerate(advice["settings"], start=1):
        for part in ("apply", "undo"):
            button = page.locator(f"button[data-copy='{part}-{number}']")
            button.click()
            page.wait_for_function(
                "(button) => button.textContent === 'Copied'", arg=button.element_handle()
            )
            assert page.evaluate("window.copied") == setting[part]
    assert opened.complaints == []
    opened.context.close()


def test_settings_scroll_within_their_box_on_a_phone(
    browser: "sync_api.Browser", report: Path
) -> None:
    opened = Opened(browser, report, PHONE, "light")
    page = opened.page
    page.eval_on_selector_all("details", "(all) => all.forEach((one) => { one.open = true; })")
    page.eval_on_selector_all(
        "pre", f"(all) => all.forEach((one) => {{ one.textContent = '{'x' * 200}|'; }})"
    )
    boxes = page.eval_on_selector_all(
        "pre",
        """(all) => all.map((one) => {
            const box = one.getBoundingClientRect();
            one.scrollLeft = one.scrollWidth;
            const range = document.createRange();
            range.setStart(one.firstChild, 200);
            range.setEnd(one.firstChild, 201);
            const last = range.getBoundingClientRect();
            const shades = getComputedStyle(one).backgroundAttachment;
            return [box.left, box.right, one.scrollLeft, last.left, last.right, shades];
        })""",
    )
    assert boxes
    for left, right, scrolled, last_left, last_right, shades in boxes:
        assert left >= 0 and right <= PHONE
        assert scrolled > 0 and left < last_left and last_right < right
        # An edge with more content beyond it is shaded.
        assert "local" in shades
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    opened.context.close()


EXTENT = """(id) => {
    const model = echarts.getInstanceByDom(document.getElementById(id)).getModel();
    return model.getComponent('xAxis').axis.scale.getExtent();
}"""


def test_axes_of_x_begin_and_end_with_their_data(browser: "sync_api.Browser", report: Path) -> None:
    opened = Opened(browser, report, WIDE, "light")
    page = opened.page
    specs = page.eval_on_selector_all(
        ".chart", "(all) => all.map((one) => [one.id, embedded(`chart-${one.id}`)])"
    )
    checked = 0
    for identifier, spec in specs:
        if spec["x"]["scale"] == "category" or spec["x"]["low"] is not None:
            continue
        xs = [x for series in spec["views"][0]["series"] for x, _ in series["points"]]
        assert page.evaluate(EXTENT, identifier) == pytest.approx([min(xs), max(xs)]), identifier
        checked += 1
    assert checked > 5
    assert opened.complaints == []
    opened.context.close()


def test_kills_and_stalls_share_the_axis_of_the_traffic(
    browser: "sync_api.Browser", tmp_path: Path
) -> None:
    drawn = tmp_path / "report.html"
    pw.report([analysis("busy", 0.5)], drawn)
    opened = Opened(browser, drawn, WIDE, "light")
    page = opened.page

    def drawings(name: str, tag: str) -> int:
        entry = page.locator("#traffic .legend").get_by_role("button", name=name)
        color = entry.locator("svg *").first.evaluate(
            "(node) => node.getAttribute('stroke') || node.getAttribute('fill')"
        )
        return page.locator(f"#traffic-0 svg path[d^='M'][{tag}='{color}']").count()

    assert drawings("kills", "stroke") == 2
    assert drawings("all tasks stalled", "stroke") >= 1
    # Each other series has an area, and a rectangle in the legend.
    assert drawings("others", "fill") >= 1
    texts = page.locator("#traffic-0 svg text").all_text_contents()
    assert "stalled for memory" in [text.strip() for text in texts]
    page.locator("#traffic select").select_option("1")
    assert drawings("kills", "stroke") == 2
    page.locator("#traffic .legend").get_by_role("button", name="kills").click()
    page.wait_for_function(
        "() => !echarts.getInstanceByDom(document.getElementById('traffic-0'))"
        ".getOption().legend[0].selected.kills"
    )
    assert drawings("kills", "stroke") == 0
    assert opened.complaints == []
    opened.context.close()


@pytest.mark.parametrize(
    "bars",
    [
        ["13 threads, 60 MiB", "41 threads, 60 MiB", "paper, 13 threads", "paper, 41 threads"],
        [f"kill-2g-lenient-{number}" for number in range(8)],
    ],
)
def test_long_names_of_bars_leave_the_axis_its_own(
    browser: "sync_api.Browser", tmp_path: Path, bars: list[str]
) -> None:
    figure = {
        **study()["figures"][1],
        "x_label": "victim",
        "rows": [[bar, "ours", 2.0, 0, 1, "", "ab"] for bar in bars],
    }
    drawn = tmp_path / "report.html"
    pw.report([{**study(), "figures": [figure]}], drawn)
    opened = Opened(browser, drawn, PHONE, "light")
    texts = opened.page.eval_on_selector_all(
        ".chart svg text",
        "(nodes) => nodes.map((node) => "
        "[node.textContent.trim(), node.getBoundingClientRect().top, "
        "node.getBoundingClientRect().bottom])",
    )
    (axis_top,) = [top for text, top, _ in texts if text == "victim"]
    written = "".join("".join(text.split()) for text, _, _ in texts)
    assert all("".join(bar.split()) in written for bar in bars)
    named = [bottom for text, _, bottom in texts if any(text and text in bar for bar in bars)]
    assert len(named) >= len(bars) and max(named) <= axis_top + 1
    opened.context.close()


def test_a_chart_of_bars_with_short_names_fills_a_phone(
    browser: "sync_api.Browser", tmp_path: Path
) -> None:
    sizes = ("512B", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K")
    rows = [[size, "ours", 2.0, 0, 1, "", "ab"] for size in sizes]
    drawn = tmp_path / "report.html"
    pw.report([{**study(), "figures": [{**study()["figures"][1], "rows": rows}]}], drawn)
    opened = Opened(browser, drawn, PHONE, "light")
    height, whole = opened.page.evaluate(
        """() => {
            const node = document.querySelector('.chart');
            const axis = echarts.getInstanceByDom(node).getModel().getComponent('yAxis').axis;
            const [low, high] = axis.getGlobalExtent();
            return [Math.abs(high - low), node.clientHeight];
        }"""
    )
    assert height > whole / 2
    opened.context.close()


def test_a_sentence_in_a_table_has_a_wide_column_on_a_phone(
    browser: "sync_api.Browser", tmp_path: Path
) -> None:
    result = study()
    result["verdicts"][0]["why"] = "since the pages of the game never came back to memory " * 3
    drawn = tmp_path / "report.html"
    pw.report([result], drawn)
    opened = Opened(browser, drawn, PHONE, "light")
    cell = opened.page.locator("td", has_text="since the pages of the game").first
    box = cell.bounding_box()
    assert box and box["width"] >= 200
    opened.context.close()
