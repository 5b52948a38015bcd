"""Names of classes, functions, fields and variables."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import tony

PACKAGE = Path(tony.__file__).parent
#: Words that say nothing of what a name stands for.
RIDDLES = {
    *("began", "bringing", "brought", "came", "heard", "judged", "meeting", "mine", "mistake", "patience", "presumed"),
    *("said", "sheet", "sight", "strangers", "theirs", "told", "verdict", "visitor"),
}
#: JSON fields, job-file keys and kinds of deadlines keep theirs.
KEPT = {"began", "gang_patience", "heard", "meeting", "verdict"}


def test_a_public_class_name_occurs_once() -> None:
    modules = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def test_no_name_is_a_riddle() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "id", None)
            if not isinstance(name, str):
                continue
            words = {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}
            if words & RIDDLES and name.lower().strip("_") not in KEPT:
                found.add(f"{path.relative_to(PACKAGE)}: {name}")
    assert sorted(found) == []
