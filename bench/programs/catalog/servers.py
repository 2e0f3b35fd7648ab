"""Servers and a browser: many processes, shared memory, forks under load."""

from __future__ import annotations

import pwd
import shutil
import subprocess
from pathlib import Path

from programs.catalog.installed import installed
from programs.catalog.tools import made
from programs.places import SOURCES
from programs.program import Program

POSTGRES = "/usr/lib/postgresql/15/bin"
USER = "postgres"
LIMIT_S = 120


def cluster(folder: Path) -> None:
    """The data folder of a fresh PostgreSQL cluster, which belongs to its user."""
    user = pwd.getpwnam(USER)
    origin = made("cluster", f"sh {SOURCES}/postgres_cluster.sh {POSTGRES} {USER} $1")
    shutil.copytree(origin, folder / "cluster")
    subprocess.run(
        ["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", folder / "cluster"],
        check=True,
        timeout=LIMIT_S,
    )


PROGRAMS = (
    Program(
        name="redis",
        what="redis-server (with jemalloc), redis-benchmark, large values, BGSAVE, a digest of all",
        words=["sh", "SOURCES/redis.sh"],
        expects="^digest [0-9a-f]{40}",
        version=["/usr/bin/redis-server", "--version"],
        needs=["/usr/bin/redis-server", "/usr/bin/redis-benchmark"],
        results=[],
        limit_s=60,
        is_quick=True,
    ),
    Program(
        name="postgres",
        what="postgres and pgbench as user postgres: 800 transactions, sums that must agree",
        words=[
            "/usr/bin/setpriv",
            f"--reuid={USER}",
            f"--regid={USER}",
            "--clear-groups",
            "sh",
            "SOURCES/postgres.sh",
            POSTGRES,
        ],
        expects="^consistent t",
        version=[f"{POSTGRES}/postgres", "--version"],
        needs=[f"{POSTGRES}/pgbench", f"{POSTGRES}/postgres", "/usr/bin/setpriv"],
        prepare=cluster,
        limit_s=120,
    ),
    installed(
        name="chromium",
        what="chromium --headless --dump-dom of a page with scripts, a canvas and a worker",
        words=[
            *(
                "chromium-headless-shell",
                "--no-sandbox",
                "--disable-gpu",
                "--user-data-dir=FOLDER/profile",
            ),
            *(
                "--allow-file-access-from-files",
                "--timeout=40000",
                "--dump-dom",
                "file://SOURCES/page.html",
            ),
        ],
        expects="finished [0-9]+",
        dropped=r"^\[[0-9/.:]+:(ERROR|WARNING|INFO):",
        limit_s=90,
        is_quick=True,
    ),
)
