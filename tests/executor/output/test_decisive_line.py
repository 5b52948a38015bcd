"""The line that says why a program failed is in its tail, however much came after it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.executor.output.test_output_capture import printed
from tony.executor.output.decisive_line import find_decisive_line
from tony.executor.output.output_capture import TAIL_LINES

KERAS = b"ValueError: Attempt to convert a value (PerReplica:{"
#: The end of an error of Keras 3: an array.
NOISE = b"".join(b"  [0. 0. 0. %d.]\n" % number for number in range(60))


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"Traceback:\n  File\n" + KERAS + b"\n" + NOISE, KERAS),
        (b"KeyError: 'y'\n\nDuring handling\n\nRuntimeError: later\nbye\n", b"RuntimeError: later"),
        (b"tf.errors_impl.InvalidArgumentError: x\r\n", b"tf.errors_impl.InvalidArgumentError: x"),
        (b"AssertionError", b"AssertionError"),
        (b"[1] ValueError: of one process of several\n", b"[1] ValueError: of one process of several"),
        (b"Exception: no class of its own\n", b"Exception: no class of its own"),
        (b"  ValueError: not at the line's beginning\n", b""),
        (b"2026-01-01 ERROR x Error: y\nErrors: 3\nError rate 4\nNo Error\n", b""),
        (b"ValueError: first\n" + b"rank 0: Error\n" * 150, b"ValueError: first"),
        (b"", b""),
    ],
)
def test_the_last_line_that_looks_like_an_exception(output: bytes, found: bytes) -> None:
    """At the beginning of a line, with a class's name."""
    assert find_decisive_line(output) == found


def tail_of(folder: Path, output: bytes) -> list[str]:
    """The tail of a program that printed this on stderr."""
    found, _ = asyncio.run(printed(folder, b"", output))
    return list(found.read_tail())


@pytest.mark.parametrize("lines", [60, 2000, 20_000])
def test_it_is_in_front_of_the_tail(tmp_path: Path, lines: int) -> None:
    """Also where it came before all that is kept."""
    noise = "  [0. 0. 0. 0.]"
    tail = tail_of(tmp_path, b"begin\n" * 20_000 + KERAS + f"\n{noise}".encode() * lines)
    assert tail == [KERAS.decode(), "...", *[noise] * (TAIL_LINES - 2)]


def test_a_tail_that_has_it_is_as_it_was(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, b"a\n" * 30 + b"ValueError: x\nbye\n")
    assert tail == [*["a"] * (TAIL_LINES - 2), "ValueError: x", "bye"]


def test_an_error_of_long_ago_is_none_of_the_failure(tmp_path: Path) -> None:
    assert tail_of(tmp_path, b"ValueError: x\n" + b"fine again\n" * 200_000) == ["fine again"] * TAIL_LINES
