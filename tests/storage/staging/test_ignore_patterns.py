"""Globs mean what they meant, and never take for ever."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from tony.storage.staging.ignore_rules import simplify_regex

GLOBS = st.lists(st.sampled_from(["a", "b", "*", "*", "?", "/", "[ab]", "[!a]", "**/", "/**", "\\*"]), max_size=9)
PATHS = st.text("ab*/", min_size=1, max_size=8)


def regex_of(glob: str) -> str | None:
    patterns: list[Any] = list(GitIgnoreSpec.from_lines([glob]).patterns)
    return patterns[0].regex.pattern if patterns and patterns[0].regex else None


@settings(max_examples=500)
@given(GLOBS.map("".join), PATHS)
def test_patterns_match_as_fnmatch(glob: str, path: str) -> None:
    """But for sets, which never match a slash."""
    try:
        regex = regex_of(glob)
    except ValueError:
        return
    if regex is None:
        return
    plain = regex.replace("[^a]", "(?!/)[^a]")
    for text in (path, f"{path}/"):
        ours, theirs = re.search(simplify_regex(regex), text), re.search(plain, text)
        assert (ours and ours.span()) == (theirs and theirs.span()), (regex, simplify_regex(regex))


@pytest.mark.parametrize("glob", ["*a" * 20 + "b", "a**" * 20 + "b", "?*" * 20 + "b", "*[ab]" * 20 + "c", "*a*" * 30])
def test_it_ends(glob: str) -> None:
    """With a naive translation, each of these takes longer than a lifetime."""
    regex = regex_of(glob)
    assert regex is not None
    began = time.process_time()
    for path in ("a" * 255, "a/" * 100 + "a" * 255):
        re.search(simplify_regex(regex), path)
    assert time.process_time() - began < 5
