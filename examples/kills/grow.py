"""What grow.pgr was recorded of: memory grows in a cgroup of 200 MiB until a child is killed.

As root, with the group made and its limit set:

    pagewise-agent record --kills --cgroup pagewise-kills -o grow.pgr -- python3 grow.py
"""

import subprocess
import sys
import time
from pathlib import Path

GROUP = Path("/sys/fs/cgroup/memory/pagewise-kills")
MIB = 1 << 20

if __name__ == "__main__":
    (GROUP / "cgroup.procs").write_text("0")
    holds = f"held = bytearray({60 * MIB}); import time; time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", holds])
    try:
        Path(f"/proc/{child.pid}/oom_score_adj").write_text("800")
        held = []
        for _ in range(32):
            held.append(bytearray(4 * MIB))
            time.sleep(0.15)
    finally:
        child.kill()
        child.wait(60)
    time.sleep(0.5)
