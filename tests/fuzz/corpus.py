"""The corpus in the repository: for each target one file of text, one input on each line, as Python writes bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"

_HEAD = "# Inputs of the fuzz target `{name}`, each of which takes a way that no other takes. Written by `make fuzz`.\n"


def load(name: str, folder: Path = FOLDER) -> list[bytes]:
    """The inputs that are kept for a target; none for one without a corpus."""
    try:
        lines = (folder / f"{name}.txt").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return []
    return [_bytes(line) for line in lines if line and not line.startswith("#")]


def save(name: str, inputs: Iterable[bytes], folder: Path = FOLDER) -> None:
    """Replaces what is kept for a target: each input once, short ones first."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    text = _HEAD.format(name=name) + "".join(f"{data!r}\n" for data in ordered)
    (folder / f"{name}.txt").write_text(text, encoding="ascii")


def _bytes(line: str) -> bytes:
    value = ast.literal_eval(line)
    if not isinstance(value, bytes):
        raise ValueError(f"no bytes: {line[:80]}")
    return value
