"""Settings of Sphinx for the documentation site; tools/docs.py runs it."""

import os
import tomllib
from pathlib import Path

ROOT = Path(os.environ["PAGEWISE_ROOT"])

project = "pagewise"
author = "the authors of pagewise"
release = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
version = release

extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "index"
# Recordings, and pages that the program made from others.
exclude_patterns = ["examples/*/*"]
# Single backquotes in docstrings are code.
default_role = "code"
highlight_language = "text"
nitpicky = False

# Links to headings, down to the smallest.
myst_heading_anchors = 6
nb_execution_mode = os.environ["PAGEWISE_NOTEBOOKS"]
nb_execution_raise_on_error = True
nb_execution_timeout = 900

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 72

html_theme = "furo"
html_title = f"pagewise {release}"
html_static_path = [str(ROOT / "tools/website/static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Excerpts in search results are read over HTTP, which a page opened from a file cannot do.
html_show_search_summary = False
report = Path(os.environ["PAGEWISE_PAGES"]) / "report.html"
html_extra_path = [str(report)] if report.exists() else []
