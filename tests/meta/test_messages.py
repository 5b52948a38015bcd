"""Messages of errors follow `tony: `: lower case, and a full stop only where there are two sentences."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_SOURCE = Path(__file__).resolve().parents[2] / "src" / "tony"
#: What takes a message besides errors of tony; those of click have the same form.
_PRINTS = ("warn", "fail", "UsageError", "BadParameter")
#: First words that are names.
_NAMES = ("YARN", "HDFS", "Hadoop", "Java", "Kerberos", "Maven", "Python")


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in _SOURCE.rglob("*.py")}


@cache
def _error_names() -> frozenset[str]:
    """Return the classes that derive from TonyError, by name."""
    classes = [node for tree in _trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {"TonyError"}
    while (
        more := {
            each.name for each in classes if names & {base.id for base in each.bases if isinstance(base, ast.Name)}
        }
        - names
    ):
        names |= more
    return frozenset(names)


def _text(node: ast.expr) -> str:
    """Return the text of a literal, with `{}` for each value in it; empty for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return ""


def _messages() -> list[tuple[str, str]]:
    found = []
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in _PRINTS or called in _error_names():
                    found.append((f"{path.relative_to(_SOURCE)}:{node.lineno}", _text(node.args[0])))
    return found


@pytest.mark.parametrize(
    ("wrong", "pattern"),
    [
        ("begins with a capital", re.compile(rf"(?!{'|'.join(_NAMES)})[A-Z][a-z]+\b")),
        ("one sentence with a full stop", re.compile(r"(?!.*[.?!] ).*[^.]\.$", re.DOTALL)),
    ],
)
def test_the_form_of_messages(wrong: str, pattern: re.Pattern[str]) -> None:
    messages = _messages()
    assert len(messages) > 500
    assert [f"{place}: {text}" for place, text in messages if pattern.match(text)] == [], wrong
