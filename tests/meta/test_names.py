"""Names of classes, functions, fields and variables; the form of messages."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.meta.sources import find_nodes, parse_modules

#: Words that say nothing of what a name stands for.
RIDDLES = re.compile(
    "began|beside|bringing|brought|came|door|heard|judged|meeting|mine|mistake|patience|presumed|said|sheet|sight|some"
    "|strangers|theirs|told|turns?|verdict|visitor|wanted|whose"
)
#: JSON fields, job-file keys and kinds of deadlines keep theirs.
KEPT = {"began", "gang_patience", "heard", "meeting", "verdict"}
#: No function begins with one of these. `on_`, `to_`, `from_` and `with_` are conventions; `required` and `repeated`
#: declare fields in messages of Hadoop.
NO_VERBS = re.compile(
    "above|after|all|any|apart|around|as|at|before|below|beside|between|by|current|each|elsewhere|first|for|in|inside"
    "|into|last|mine|near|new|next|no|none|not|of|off|only|or|other|out|outside|over|own|same|some|then|there|through"
    "|too|under|until|what|when|where|which|who|whole|whose|why|within|without|begun|broken|brought|built|come|done"
    "|found|given|gone|held|hidden|kept|known|listening|living|lost|missing|running|seen|sent|serving|shown|spent"
    "|taken|told|unknown|unread|waiting|working|written|wrote|(?!feed|required|repeated)\\w+ed"
)
#: What takes a message besides errors of tony; those of click have the same form.
MESSAGE_FUNCTIONS = {"warn", "fail", "UsageError", "BadParameter"}
#: First words of messages that are names.
PROPER_NAMES = ("YARN", "HDFS", "Hadoop", "Java", "Kerberos", "Maven", "Python")


def test_a_public_class_name_occurs_once() -> None:
    modules = defaultdict(list)
    for path, tree in parse_modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path)
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def test_no_name_is_a_riddle() -> None:
    names = {
        (path, name)
        for path, node in find_nodes(ast.AST)
        for field in ("name", "arg", "id", "attr")
        if isinstance(name := getattr(node, field, None), str)
    }
    found = [
        f"{path}: {name}"
        for path, name in names
        if any(RIDDLES.fullmatch(word.lower()) for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name))
        and name.lower().strip("_") not in KEPT
    ]
    assert sorted(found) == []


def test_a_function_begins_with_a_verb() -> None:
    functions: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = [
        *find_nodes(ast.FunctionDef),
        *find_nodes(ast.AsyncFunctionDef),
    ]
    found = [
        f"{path}: {node.name}"
        for path, node in functions
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        and NO_VERBS.fullmatch(node.name.strip("_").split("_")[0])
    ]
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("wrong", "pattern"),
    [
        ("begins with a capital", re.compile(rf"(?!{'|'.join(PROPER_NAMES)})[A-Z][a-z]+\b")),
        ("one sentence with a full stop", re.compile(r"(?!.*[.?!] ).*[^.]\.$", re.DOTALL)),
    ],
)
def test_the_form_of_messages(wrong: str, pattern: re.Pattern[str]) -> None:
    """Messages follow `tony: `: lower case, and a full stop only where there are two sentences."""
    functions = MESSAGE_FUNCTIONS | _list_error_names()
    messages = [
        (f"{path}:{node.lineno}", _text(node.args[0]))
        for path, node in find_nodes(ast.Call)
        if node.args and (getattr(node.func, "attr", None) or getattr(node.func, "id", "")) in functions
    ]
    assert len(messages) > 500
    assert [f"{place}: {text}" for place, text in messages if pattern.match(text)] == [], wrong


def _list_error_names() -> set[str]:
    """Return the classes that derive from TonyError, by name."""
    bases = {node.name: {getattr(base, "id", "") for base in node.bases} for _, node in find_nodes(ast.ClassDef)}
    names = {"TonyError"}
    while more := {name for name, above in bases.items() if above & names} - names:
        names |= more
    return names


def _text(node: ast.expr) -> str:
    """Return the text of a literal, with `{}` for each value in it; empty for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return ""
