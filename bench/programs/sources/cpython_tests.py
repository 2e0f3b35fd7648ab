"""Runs a file of CPython's tests and prints the result of each test: cpython_tests.py NAME.

If a test fails, also passes on the status and the streams of `python -m test`.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as tree

name = sys.argv[1]
report = os.path.abspath("report.xml")
ran = subprocess.run(
    [sys.executable, "-m", "test", "-u", "none", "--junit-xml", report, name],
    stdin=subprocess.DEVNULL,
    capture_output=True,
    text=True,
)
if ran.returncode:
    print(ran.stdout, ran.stderr, sep="\n")
cases = sorted(
    (
        case.get("name", ""),
        ", ".join(
            [*(case.get(mark, "") for mark in ("status", "result")), *(part.tag for part in case)]
        ),
    )
    for case in tree.parse(report).getroot().iter("testcase")
)
print(f"tests {len(cases)}, status {ran.returncode}")
for case in cases:
    print(*case)
sys.exit(ran.returncode)
