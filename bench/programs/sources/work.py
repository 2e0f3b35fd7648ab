"""Large bytearrays, lists, threads, subprocesses and mappings; prints a digest."""

import gc
import hashlib
import mmap
import random
import subprocess
import sys
import threading

PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
results: dict[int, str] = {}


def work(seed: int) -> None:
    """Blocks that live for a while, each checked when it goes."""
    draw = random.Random(seed)
    own = hashlib.sha256()
    kept: list[bytearray] = []
    for number in range(200):
        block = bytearray(draw.randrange(1, 1 << 20))
        assert not any(block[::997]), "fresh memory is not zero"
        block[0] = block[-1] = number
        block.extend(bytes([number]) * draw.randrange(1 << 18))
        kept.append(block)
        if len(kept) > 12:
            own.update(kept.pop(draw.randrange(12)))
    results[seed] = own.hexdigest()


def mapped(seed: int) -> str:
    """Anonymous mappings that grow and shrink."""
    own = hashlib.sha256()
    for number in range(1, 60):
        with mmap.mmap(-1, number * 37 * 4096, flags=PRIVATE) as memory:
            memory[::4096] = bytes([number]) * (number * 37)
            memory.resize(number * 53 * 4096)
            own.update(memory[::1024])
    return own.hexdigest()


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
results[3] = mapped(3)
table = [[str(number) * 3 for number in range(row)] for row in range(900)]
results[4] = hashlib.sha256(repr(table).encode()).hexdigest()
del table
gc.collect()
code = "import sys; data = sys.stdin.buffer.read(); print(len(data), sum(data[::4099]))"
for number in range(5):
    child = [sys.executable, "-S", "-c", code]
    sent = bytes([number]) * (1 << 21)
    results[5 + number] = subprocess.run(
        child, input=sent, capture_output=True, check=True
    ).stdout.decode()
print("finished", hashlib.sha256(repr(sorted(results.items())).encode()).hexdigest())
