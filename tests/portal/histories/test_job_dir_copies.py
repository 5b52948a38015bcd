"""What lies in folders, asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tony.portal.histories.job_dir_copies import Listings
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import Item


class Noting(LocalStore):
    """Knows which folders it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.listed: list[str] = []

    def list(self, path: str = "") -> Sequence[Item]:
        self.listed.append(path)
        return super().list(path)


def test_a_folder_is_listed_once(tmp_path: Path) -> None:
    """Whatever is searched in it, until it is forgotten or something is written."""
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
    known.remove("a/two")
    assert known.find("a/two") is None
    known.write("a/two", b"22")
    assert known.read("a/two", 2) == b"22"
    assert known.read("a/two", 2) == b"22"
    assert store.listed == ["a", "b", "a", "a", "a"]


def test_long_lists_count_as_often_as_they_are_paid(tmp_path: Path) -> None:
    """A thousand names come with one request."""
    store = LocalStore(tmp_path)
    for number in range(1_500):
        tmp_path.joinpath(str(number)).touch()
    known = Listings(store)
    known.list()
    known.list("nothing")
    assert known.request_count == 3
