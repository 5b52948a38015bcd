"""Patterns of jobs for lines of output: bounded, and found by words."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts import mentions
from tony.model.line_pattern import SEARCHED_BYTES, explain_refusal, find_words

GOOD = {
    "quota exceeded on /scratch": ("quota exceeded on /scratch",),
    r"(?i)SCRATCH: \w+ is full": ("scratch: ",),
    "foo|bar": ("foo", "bar"),
    r"(error|fail)\d+ on node": (" on node",),
    r"^lost .*, .*, node [0-9]+$": (", node ",),
    r"x{1,5}yyy": ("yyy",),
    r"(node [a-z]+ ){1,3}": None,
    r"MARK(ER)?: .*lost": ("mark",),
    r"\berror (?!ignored)now": ("error ",),
    r"(?:un)?reachable": ("reachable",),
}


@pytest.mark.parametrize(("pattern", "words"), GOOD.items())
def test_each_match_has_one_of_the_words(pattern: str, words: tuple[str, ...] | None) -> None:
    if words is None:
        assert mentions(explain_refusal(pattern), "repeats a part")
        return
    assert explain_refusal(pattern) == ""
    assert find_words(pattern) == tuple(word.encode() for word in words)


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("[", "not a regular expression"),
        ("(", "not a regular expression"),
        ("", "empty"),
        ("a*", "empty"),
        ("(?=abc)", "empty"),
        ("^$", "empty"),
        ("(a+)+ never", "repeats a part"),
        ("(a|aa)+ never", "repeats a part"),
        ("(?:a?){20}a{20} never", "repeats a part"),
        ("(?=.*a)never", "repeats a part"),
        (r"(never) \1", "refers back"),
        ("never.*a.*b.*c", "too many repetitions"),
        ("a?" * 30 + "never", "too many repetitions"),
        ("ab", "no word"),
        (r"\d+ \d+", "no word"),
        ("never|ab", "no word"),
        ("never" * 100, "500 characters"),
    ],
)
def test_a_pattern_that_could_stall_or_match_anything_is_refused(pattern: str, word: str) -> None:
    assert mentions(explain_refusal(pattern), word)


_PIECES = st.sampled_from(
    ["never", "node", "ab", "a", ".", ".*", "a*", "[ab]+", "a?", "(a|b)", "(ab|a)", r"\w{1,9}", "b{2}"]
)


@given(st.lists(_PIECES, min_size=1, max_size=7).map("".join), st.lists(st.sampled_from("abn evrod"), max_size=40))
def test_no_accepted_pattern_misses_a_word_in_its_matches(pattern: str, letters: list[str]) -> None:
    line = "".join(letters)
    found = re.search(pattern, line) if not explain_refusal(pattern) else None
    assert found is None or any(word in line.encode() for word in find_words(pattern))


@pytest.mark.parametrize("pattern", ["never.*a.*b", "^never.*a.*b.*c", "[ab]*[ab]*never", r"\w+ \w*never"])
def test_the_worst_line_takes_a_moment(pattern: str) -> None:
    """The bound on the ways to match is one on the time: far below what would be noticed as missing heartbeats."""
    assert explain_refusal(pattern) == ""
    started_at = time.process_time()
    for line in ("never" * SEARCHED_BYTES, "ab" * SEARCHED_BYTES, "nevera" * SEARCHED_BYTES):
        re.search(pattern, line[:SEARCHED_BYTES])
    assert time.process_time() - started_at < 10
