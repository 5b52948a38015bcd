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
    *("said", "sheet", "sight", "some", "strangers", "theirs", "told", "turn", "turns", "verdict", "visitor"),
    *("beside", "door", "wanted", "whose"),
}
#: JSON fields, job-file keys and kinds of deadlines keep theirs.
KEPT = {"began", "gang_patience", "heard", "meeting", "verdict"}
#: No function begins with one of these words, or with a participle. `on_`, `to_`, `from_` and `with_` are conventions.
NO_VERBS = {
    *("above", "after", "all", "any", "apart", "around", "as", "at", "before", "below", "beside", "between", "by"),
    *("current", "each", "elsewhere", "first", "for", "in", "inside", "into", "last", "mine", "near", "new", "next"),
    *("no", "none", "not", "of", "off", "only", "or", "other", "out", "outside", "over", "own", "same", "some", "then"),
    *("there", "through", "too", "under", "until", "what", "when", "where", "which", "who", "whole", "whose", "why"),
    *("within", "without"),
    *(
        "begun",
        "broken",
        "brought",
        "built",
        "come",
        "done",
        "found",
        "given",
        "gone",
        "held",
        "hidden",
        "kept",
        "known",
    ),
    *("lost", "seen", "sent", "shown", "spent", "taken", "told", "unknown", "unread", "written", "wrote"),
    *("listening", "living", "missing", "running", "serving", "waiting", "working"),
}
#: Declarations of fields in messages of Hadoop.
FIELD_DECLARATIONS = {"required", "repeated"}


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
            names = (getattr(node, field, None) for field in ("name", "arg", "id", "attr"))
            name = next((name for name in names if isinstance(name, str)), "")
            words = {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}
            if words & RIDDLES and name.lower().strip("_") not in KEPT:
                found.add(f"{path.relative_to(PACKAGE)}: {name}")
    assert sorted(found) == []


def test_a_function_begins_with_a_verb() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name in FIELD_DECLARATIONS:
                continue
            if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
                continue
            first = node.name.strip("_").split("_")[0]
            if first in NO_VERBS or (first.endswith("ed") and first != "feed"):
                found.add(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert sorted(found) == []
