"""What goes from the cluster's cache, and what must not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_requests import WebLogin
from tony.schedulers.yarn.client.cache_eviction import DAY, MARKER, evict

CACHE = "/tony/cache"
#: The fake NameNode's clock.
NOW = 1_700_000_000_123


class Store:
    """A cache with objects that were used so many days ago."""

    def __init__(self, hdfs: FakeWebHdfs) -> None:
        self.hdfs = hdfs
        self.files = WebHdfs([hdfs.url], WebLogin(user="ann"))
        for path in ("/tony", CACHE, f"{CACHE}/{MARKER}"):
            hdfs.files[path] = FakeFile()
        self.put("used", modified=400, accessed=0)

    def put(self, name: str, *, modified: float, accessed: float | None = None) -> None:
        self.hdfs.files[f"{CACHE}/{name}"] = FakeFile(
            content=b"x",
            modified_ms=int(NOW - modified * DAY),
            accessed_ms=0 if accessed is None else int(NOW - accessed * DAY),
        )

    def evict(self, oldest_live: float | None = None) -> int:
        """Args: days since the start of the oldest live application."""
        return evict(self.files, CACHE, ["used"], None if oldest_live is None else int(NOW - oldest_live * DAY))

    @property
    def names(self) -> list[str]:
        return sorted(path.removeprefix(CACHE + "/") for path in self.hdfs.files if path.startswith(CACHE + "/"))


@pytest.fixture
def store() -> Iterator[Store]:
    with FakeWebHdfs() as hdfs:
        made = Store(hdfs)
        yield made
        made.files.close()


def test_only_objects_unused_for_long_are_evicted(store: Store) -> None:
    """A use counts as much as the upload; unfinished uploads are removed as well."""
    store.put("old", modified=100, accessed=31)
    store.put("old.f00.part", modified=31)
    store.put("noted", modified=100, accessed=29)
    store.put("new", modified=1)
    store.hdfs.files[f"{CACHE}/folder"] = FakeFile(modified_ms=0)
    assert store.evict() == 2
    assert store.names == [MARKER, "folder", "new", "noted", "used"]


def test_objects_of_a_running_application_are_kept(store: Store) -> None:
    """It notes its use at most a day before its start; clocks may differ by another."""
    store.put("maybe", modified=400, accessed=41.9)
    store.put("surely not", modified=400, accessed=42.1)
    assert store.evict(oldest_live=40) == 1
    assert store.names == [MARKER, "maybe", "used"]


def test_young_applications_change_nothing(store: Store) -> None:
    """Thirty days are kept in any case."""
    store.put("old", modified=31)
    store.put("rather new", modified=29)
    assert store.evict(oldest_live=0.01) == 1
    assert store.names == [MARKER, "rather new", "used"]


def test_uses_are_not_noted_here(store: Store) -> None:
    """Without access times it is unknown what is used: all of it stays."""
    store.put("used", modified=400)
    store.put("old", modified=400)
    assert store.evict() == 0
    assert store.names == [MARKER, "old", "used"]


def test_no_eviction_while_used_objects_disappear(store: Store) -> None:
    """Another client is removing objects; the used ones are uncertain then."""
    del store.hdfs.files[f"{CACHE}/used"]
    store.put("old", modified=400)
    assert store.evict() == 0


def test_use_noted_at_the_last_moment(store: Store) -> None:
    """Another client notes a use after the check: the object is restored as it was."""
    store.put("old", modified=400)
    before = store.hdfs.files[f"{CACHE}/old"]

    def note(path: str) -> None:
        before.accessed_ms = NOW

    store.hdfs.before("RENAME", note)
    assert store.evict() == 0
    assert store.hdfs.files[f"{CACHE}/old"] is before
    assert store.names == [MARKER, "old", "used"]


def test_sent_again_at_the_last_moment(store: Store) -> None:
    """Another client found it removed and uploaded it again: that copy stays."""
    store.put("old", modified=400)
    before = store.hdfs.files[f"{CACHE}/old"]

    def send(path: str) -> None:
        if path.startswith(f"{CACHE}/{MARKER}"):  # it is on its way back
            store.put("old", modified=0)
        before.accessed_ms = NOW

    store.hdfs.before("RENAME", send)
    assert store.evict() == 0
    assert store.hdfs.files[f"{CACHE}/old"] is not before
    assert store.names == [MARKER, "old", "used"]


def test_two_at_once(store: Store) -> None:
    """What the other one has removed is none of our business."""
    store.put("old", modified=400)
    store.hdfs.before("RENAME", lambda path: store.hdfs.files.pop(path, None))
    assert store.evict() == 0
    assert store.names == [MARKER, "used"]


def test_leftovers_of_a_killed_eviction(store: Store) -> None:
    """Objects put aside are removed after a day; those that another client has just put there stay."""
    for name, age in (("killed", 2), ("busy", 0)):
        store.hdfs.files[f"{CACHE}/{MARKER}/{name}"] = FakeFile(modified_ms=NOW - age * DAY)
        store.put(f"{MARKER}/{name}/object", modified=400)
    store.evict()
    assert store.names == [MARKER, f"{MARKER}/busy", f"{MARKER}/busy/object", "used"]
