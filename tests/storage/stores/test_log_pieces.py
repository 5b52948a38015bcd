"""Event logs in S3 that are a row of objects are read as one file."""

from __future__ import annotations

import uuid

import pytest

from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.log_pieces import join_log_pieces
from tony.storage.stores.store_interface import FileStore, Item

LOG = "jobs/j/events.1.jsonl"


@pytest.fixture
def store() -> FileStore:
    made = FsspecStore(f"memory://stores-{uuid.uuid4()}")
    for number, data in enumerate((b"", b"one\n", b"two\n", b"")):
        made.write(f"{LOG}.{number:06d}", data)
    made.write("jobs/j/job.json", b"{}")
    return made


def test_a_folder_shows_one_file(store: FileStore) -> None:
    found = {item.name: item for item in store.list("jobs/j")}
    assert {name: item.size for name, item in found.items()} == {"events.1.jsonl": 8, "job.json": 2}
    assert store.find(LOG) == found["events.1.jsonl"]
    assert found["events.1.jsonl"].changed > 0


@pytest.mark.parametrize("offset", range(10))
def test_it_is_read_from_any_place(store: FileStore, offset: int) -> None:
    assert b"".join(store.read_pieces(LOG, offset)) == b"one\ntwo\n"[offset:]


@pytest.mark.parametrize(("removed", "expected"), [(0, b""), (2, b"one\n")])
def test_it_ends_where_a_piece_is_missing(store: FileStore, removed: int, expected: bytes) -> None:
    store.remove(f"{LOG}.{removed:06d}")
    assert b"".join(store.read_pieces(LOG)) == expected
    sizes = {item.name: item.size for item in store.list("jobs/j")}
    assert sizes.get("events.1.jsonl", 0) == len(expected)


def test_all_pieces_are_of_one_owner() -> None:
    owners = ["ann", "ann", "eve"]
    items = [
        Item(name=f"events.1.jsonl.{number:06d}", folder=False, size=1, owner=owner)
        for number, owner in enumerate(owners)
    ]
    (joined,) = join_log_pieces(items)
    assert (joined.owner, joined.size) == ("ann", 2)


def test_a_log_that_does_not_exist(store: FileStore) -> None:
    assert store.find("jobs/j/events.2.jsonl") is None
    assert list(store.read_pieces("jobs/j/events.2.jsonl")) == []
