"""The lines of a block that contain a text, whatever its case and the colours in the log."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from tony.jobs.directory.log_search import SearchText


@given(
    parts=st.lists(
        st.sampled_from([b"a", b"B", b"ab", b"\x1b[31m", b"\x1b[0m", b"\x1b[", b"\x1b", b"\n"]), max_size=20
    ),
    text=st.text("abx", min_size=1, max_size=3),
)
def test_lines_are_those_that_a_pattern_finds(parts: list[bytes], text: str) -> None:
    """A pattern that passes over colours between any two letters."""
    block = b"".join(parts)
    letters = rb"(?:\x1b\[[0-9;:]{0,32}m)*".join(letter.encode() for letter in text)
    pattern = re.compile(letters, re.IGNORECASE)
    found = [block[start:end] for start, end in SearchText(text).find_lines(block)]
    assert found == [line for line in block.split(b"\n") if pattern.search(line)]


def test_a_search_reads_each_byte_once() -> None:
    """A regular expression would read each byte as often as the text is long, and block the server for minutes."""
    began = time.process_time()
    for block in (b"\x1b[m" + b"a" * (8 << 20), (b"a" + b"\x1b[m" * 10) * (8 << 15)):
        assert list(SearchText("a" * 499 + "b").find_lines(block)) == []
    assert time.process_time() - began < 20
