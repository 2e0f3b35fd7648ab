"""Writes a git repository of 300 commits, all objects loose: python3 write_repository.py FOLDER."""

import os
import random
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])
draw = random.Random(7)
environment = os.environ | {
    "HOME": str(folder.parent),
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "A" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}


def git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, timeout=60)


folder.mkdir()
git("init", "-q", "-b", "main")
git("config", "gc.auto", "0")
texts = {name: [f"{draw.random()}\n" for _ in range(400)] for name in range(20)}
(folder / "large").write_bytes(draw.randbytes(3 << 20))
for number in range(300):
    changed = draw.choice(list(texts))
    texts[changed][draw.randrange(400)] = f"{number} {draw.random()}\n"
    (folder / f"file{changed}").write_text("".join(texts[changed]))
    git("add", ".")
    git("commit", "-q", "-m", f"change {number}")
