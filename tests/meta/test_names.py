"""Names of classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import tony

PACKAGE = Path(tony.__file__).parent
#: Names that are used twice: messages of Hadoop and of the wire keep theirs.
SHARED = {"Container", "FileStatus", "LogPiece"}


def test_a_public_class_name_occurs_once() -> None:
    modules = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1 and name not in SHARED} == {}
