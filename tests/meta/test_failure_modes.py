"""The list of failure modes is complete, and every test that it names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "failure_modes"
PARAGRAPHS: list[dict[str, Any]] = tomllib.loads((FOLDER / "cases.toml").read_text(encoding="utf-8"))["paragraph"]
CASES = [case for paragraph in PARAGRAPHS for case in paragraph["case"]]

#: What may stand between two cases.
BETWEEN = re.compile(r"[\s,;.:]*")


@cache
def collected() -> frozenset[str]:
    """Every test of this folder and of the files that the list names, long ones too: with and without parameters."""
    files = sorted({test.partition("::")[0] for case in CASES for test in case["tests"]} | {"tests/failure_modes"})
    there = [file for file in files if (ROOT / file).exists()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--long", "-p", "no:cacheprovider", *there],
        cwd=ROOT,
        env={**os.environ, "CI": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    ids = [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]
    return frozenset(ids) | {test.partition("[")[0] for test in ids}


@pytest.mark.parametrize("case", CASES, ids=[case["words"] for case in CASES])
def test_a_case_is_proved(case: dict[str, Any]) -> None:
    """By one test or more, each of which pytest finds."""
    assert case["tests"], "no test proves it"
    assert [] == [test for test in case["tests"] if test not in collected()]


@pytest.mark.parametrize("paragraph", PARAGRAPHS, ids=[paragraph["text"][:20].strip() for paragraph in PARAGRAPHS])
def test_the_cases_cover_the_whole_text(paragraph: dict[str, Any]) -> None:
    """One after the other, except for connecting words."""
    text = re.sub(r"\s+", " ", paragraph["text"]).strip()
    for case in paragraph["case"]:
        text = text[BETWEEN.match(text).end() :]  # type: ignore[union-attr]
        assert text.startswith(case["words"]), f"expected {case['words']!r}, found {text[:80]!r}"
        text = text.removeprefix(case["words"])
    assert BETWEEN.fullmatch(text), text


def test_no_test_here_is_without_a_case() -> None:
    """Each test in this folder is listed with the case that it proves."""
    named = {test.partition("[")[0] for case in CASES for test in case["tests"]}
    here = {test.partition("[")[0] for test in collected() if test.startswith("tests/failure_modes/")}
    assert set() == here - named


def test_a_case_names_a_test_once() -> None:
    """A test named twice was meant to be another one."""
    assert [] == list(_doubled())


def _doubled() -> Iterator[str]:
    for case in CASES:
        yield from sorted({test for test in case["tests"] if case["tests"].count(test) > 1})
