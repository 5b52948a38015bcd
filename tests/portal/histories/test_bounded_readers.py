"""Many things are looked at, each for a bounded time."""

from __future__ import annotations

import threading

import pytest

from tony.errors import StorageError
from tony.portal.histories.bounded_readers import Readers


def test_all_of_them() -> None:
    """Each once, with what came of it, errors too."""

    def look(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return 2 * number

    found = dict(Readers(look, threads=3, longest=60.0).read_each(range(50)))
    assert {number: str(answer) for number, answer in found.items() if isinstance(answer, Exception)} == {3: "three"}
    assert {number: answer for number, answer in found.items() if number != 3} == {
        n: 2 * n for n in range(50) if n != 3
    }


def test_nothing() -> None:
    assert list(Readers(str, threads=3, longest=60.0).read_each([])) == []


def test_those_that_hang_are_left_behind() -> None:
    """They are said to have hung, and all others have their answers."""
    free = threading.Event()

    def look(number: int) -> int:
        if number % 10 == 0:
            free.wait()
        return number

    try:
        found = dict(Readers(look, threads=2, longest=0.1).read_each(range(40)))
    finally:
        free.set()
    late = {number for number, answer in found.items() if isinstance(answer, StorageError)}
    assert late >= {0, 10, 20, 30}
    assert len(found) == 40


def test_too_many_that_hang() -> None:
    """Then it is the place, and not the things."""
    free = threading.Event()

    def look(_: int) -> bool:
        return free.wait()

    try:
        with pytest.raises(StorageError, match="could not be read within"):
            list(Readers(look, threads=4, longest=0.05, most_lost=3).read_each(range(100)))
    finally:
        free.set()


def test_closing_the_iterator_ends_its_threads() -> None:
    before = threading.active_count()
    some = Readers(str, threads=3, longest=60.0).read_each(range(100))
    next(some)
    some.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(timeout=0.01)
    assert threading.active_count() <= before + 3
