"""The list of failure modes is complete, and every test that it names exists."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "failure_modes"
PARAGRAPHS: list[dict[str, Any]] = tomllib.loads((FOLDER / "cases.toml").read_text(encoding="utf-8"))["paragraph"]
CASES = [case for paragraph in PARAGRAPHS for case in paragraph["case"]]

#: What may stand between two cases.
BETWEEN = re.compile(r"[\s,;.:]*")


def list_tests(file: str) -> set[str]:
    """Return the ids of the tests of a file, without parameters."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    found = set()
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{file}::{node.name}::" if isinstance(node, ast.ClassDef) else f"{file}::"
        functions = (each for each in members if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        found |= {f"{prefix}{function.name}" for function in functions if function.name.startswith("test_")}
    return found


def test_each_case_is_proved() -> None:
    """By one test or more, each of which exists and is named once."""
    assert [case["words"] for case in CASES if not case["tests"]] == []
    named = {test for case in CASES for test in case["tests"]}
    existing = {test for file in {test.partition("::")[0] for test in named} for test in list_tests(file)}
    assert sorted(named - existing) == []
    assert [case["words"] for case in CASES if len(set(case["tests"])) < len(case["tests"])] == []
    own = {test for file in FOLDER.glob("test_*.py") for test in list_tests(str(file.relative_to(ROOT)))}
    assert sorted(own - named) == [], "tests of this folder that no case names"


@pytest.mark.parametrize("paragraph", PARAGRAPHS, ids=[paragraph["text"][:20].strip() for paragraph in PARAGRAPHS])
def test_the_cases_cover_the_whole_text(paragraph: dict[str, Any]) -> None:
    """One after the other, except for connecting words."""
    text = re.sub(r"\s+", " ", paragraph["text"]).strip()
    for case in paragraph["case"]:
        text = text[BETWEEN.match(text).end() :]  # type: ignore[union-attr]
        assert text.startswith(case["words"]), f"expected {case['words']!r}, found {text[:80]!r}"
        text = text.removeprefix(case["words"])
    assert BETWEEN.fullmatch(text), text
