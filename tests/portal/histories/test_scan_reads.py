"""What a scan reads: each folder once, and each item for a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.portal.histories.scanner import Listings, read_each
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import Item


def test_all_of_them() -> None:
    """Each once, with what came of it, errors too."""

    def look(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return 2 * number

    found = dict(read_each(look, range(50), threads=3, longest=60.0))
    assert {number: str(answer) for number, answer in found.items() if isinstance(answer, Exception)} == {3: "three"}
    assert {number: answer for number, answer in found.items() if number != 3} == {
        n: 2 * n for n in range(50) if n != 3
    }


def test_nothing() -> None:
    assert list(read_each(str, [], threads=3, longest=60.0)) == []


def test_threads_are_used_again_and_end() -> None:
    """A thread for each of a million folders would take most of a scan's time."""
    used = set()

    def look(_: int) -> None:
        used.add(threading.current_thread())

    assert len(list(read_each(look, range(100), threads=3, longest=60.0))) == 100
    assert len(used) <= 3
    for thread in used:
        thread.join(10.0)
        assert not thread.is_alive()


def test_those_that_hang_are_left_behind() -> None:
    """They are said to have hung, and all others have their answers."""
    free = threading.Event()

    def look(number: int) -> int:
        if number % 10 == 0:
            free.wait()
        return number

    try:
        found = dict(read_each(look, range(40), threads=2, longest=0.1))
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
            list(read_each(look, range(100), threads=4, longest=0.05, most_lost=3))
    finally:
        free.set()


class Noting(LocalStore):
    """Knows which folders it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.listed: list[str] = []

    def list(self, path: str = "") -> Sequence[Item]:
        self.listed.append(path)
        return super().list(path)


def test_a_folder_is_listed_once(tmp_path: Path) -> None:
    """Whatever is searched in it, until it is forgotten."""
    store = Noting(tmp_path)
    store.write("a/one", b"1")
    known = Listings(store)
    assert [item.name for item in known.list("a")] == ["one"]
    assert known.find("a/one") == store.find("a/one")
    assert known.find("a/two") is known.find("b/two") is known.find("b/one") is None
    assert store.listed == ["a", "b"]
    store.write("a/two", b"22")
    assert known.find("a/two") is None
    known.forget("a")
    assert known.find("a/two") == store.find("a/two")
    assert known.read("a/two", 2) == b"22"
    assert store.listed == ["a", "b", "a"]


def test_long_lists_count_as_often_as_they_are_paid(tmp_path: Path) -> None:
    """A thousand names come with one request."""
    store = LocalStore(tmp_path)
    for number in range(1_500):
        tmp_path.joinpath(str(number)).touch()
    known = Listings(store)
    known.list()
    known.list("nothing")
    assert known.request_count == 3
