"""The syntax trees of the standard library, and matrices.

A visit walks some trees and multiplies.
"""

import ast
import sysconfig
from pathlib import Path

import numpy as np
from lines import serve

library = Path(sysconfig.get_paths()["stdlib"])
sources = [*sorted(library.glob("*.py")), *sorted(library.glob("*/*.py"))][:260]
trees = [ast.parse(source.read_bytes()) for source in sources]
matrices = [np.random.default_rng(seed).random((256, 256)) for seed in range(60)]


def visit(round_number: int) -> int:
    """Walks the trees in front and some of the round."""
    opened = trees[: len(trees) // 6]
    others = [trees[(round_number * 17 + i) % len(trees)] for i in range(len(trees) // 20)]
    nodes = sum(1 for tree in opened + others for _ in ast.walk(tree))
    for i in range(12):
        matrices[i] = matrices[i] @ matrices[i] / np.linalg.norm(matrices[i])
    matrices[round_number % 60] += 1
    return nodes


serve(visit)
