"""Tests of `tony.name_suggestions`: what a misspelt name probably means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.name_suggestions import find_closest_match, find_similar_file, format_known_names, suggest_names

KNOWN = ["max_restarts", "memory", "vcores", "worker", "My-Role"]


@pytest.mark.parametrize(
    ("expected", "word"),
    [
        ("memory", "memry"),
        ("max_restarts", "MAX-RESTARTS"),
        ("My-Role", "my_role"),
        ("worker", "workers"),
        (None, "zzz"),
        (None, ""),
        (None, "x" * 100_000),
    ],
)
def test_the_nearest_name_is_found(expected: str | None, word: str) -> None:
    """Case and dashes do not matter; nothing is better than something far-fetched."""
    assert expected == find_closest_match(word, KNOWN)


def test_a_hint_is_never_empty() -> None:
    """A near name, or else the list of names, cut when they are many."""
    assert "did you mean `memory`?" == suggest_names("memori", KNOWN, "no")
    assert "no" == suggest_names("zzz", KNOWN, "no")
    assert "known: a, b." == format_known_names(["a", "b"])
    many = [f"n{number}" for number in range(20)]
    assert "known: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11 and 8 more." == format_known_names(many)


def test_among_thousands_only_spelling_is_forgiven() -> None:
    """Looking for likeness there would take minutes over a whole file."""
    many = [f"role-{number}" for number in range(10_000)]
    assert "role-77" == find_closest_match("ROLE_77", many)
    assert find_closest_match("rol-77", many) is None


def test_a_file_next_to_a_missing_one(tmp_path: Path) -> None:
    for name in ("train.py", "train.sh", "other.py"):
        (tmp_path / name).touch()
    assert "train.py" == find_similar_file(tmp_path / "trian.py", (".py",))
    assert "" == find_similar_file(tmp_path / "trian.py", (".toml",))
    assert "" == find_similar_file(tmp_path / "none" / "trian.py", (".py",))
