"""The syntax of eviction policies: ``NAME``, or ``NAME:OPTION=VALUE,...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def policies_in(policies: str | Sequence[str]) -> list[str]:
    """The policies in ``"lru-k:k=3,tinylfu:window=20,sample=5,lru"`` (three), each once.

    An option belongs to the policy before it.
    """
    if not isinstance(policies, str):
        return list(dict.fromkeys(policies))
    found: list[str] = []
    for part in policies.split(","):
        if found and ":" in found[-1] and ":" not in part and "=" in part:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return list(dict.fromkeys(found))


def written(name: str, options: Mapping[str, str]) -> str:
    """A policy with its options, as text."""
    if not options:
        return name
    return f"{name}:{','.join(f'{option}={value}' for option, value in options.items())}"
