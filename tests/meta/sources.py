"""The modules of the package, parsed once for all rules."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import tony

PACKAGE = Path(tony.__file__).parent
ROOT = PACKAGE.parents[1]

Node = TypeVar("Node", bound=ast.AST)


@cache
def parse_modules() -> dict[str, ast.Module]:
    """Return path in the package -> syntax tree."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def _list_nodes() -> list[tuple[str, ast.AST]]:
    gc.disable()  # else it reads the trees many times while they grow
    try:
        return [(path, node) for path, tree in parse_modules().items() for node in ast.walk(tree)]
    finally:
        gc.freeze()
        gc.enable()


def find_nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    """Yield path and node, of each node of a class."""
    return ((path, node) for path, node in _list_nodes() if isinstance(node, kind))
