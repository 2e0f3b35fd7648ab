"""Pictures of the report: wide, on a phone and dark, by Chromium if the machine has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VIEWS = {
    "wide": (1280, 1600, "light"),
    "phone": (390, 1600, "light"),
    "dark": (1280, 1600, "dark"),
}
"""Width and height in CSS pixels, and the colour scheme."""


PATIENCE_MS = 600_000
"""How long a page may take to load; a build machine may be busy."""


def write(source: Path) -> list[Path]:
    """Writes the report of the demo and its pictures; returns them, none without Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("no pictures of the report: Chromium is not installed (Debian: chromium)")
        return []
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("no pictures of the report: the Python package playwright is not installed")
        return []
    report = source / "report.html"
    command = [sys.executable, "-m", "pagewise", "demo", "--report", str(report)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if run.returncode != 0:
        sys.exit(f"pagewise demo failed:\n{run.stderr}")
    pictures = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, (width, height, scheme) in VIEWS.items():
            context = chromium.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-ready]")
            pictures.append(source / f"docs/report-{name}.png")
            page.screenshot(path=pictures[-1])
            context.close()
        chromium.close()
    return pictures
