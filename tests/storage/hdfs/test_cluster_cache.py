"""The cluster's cache: objects are put there once, whole or not at all; their use is noted, and unused ones go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs, Trouble
from tony.errors import SchedulerError, StorageError
from tony.hadoop.errors import HadoopError
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.storage.hdfs.cluster_cache import DAY, MARKER, ClusterCache, UploadRequest
from tony.storage.staging.remote_files_interface import RemoteFile

STAGING = "/user/ann/.tony"
CACHE = f"{STAGING}/cache"


class FakeClusterClients:
    """A cluster of which there is only the file system."""

    def __init__(self, hdfs: FakeWebHdfs) -> None:
        self.hdfs = hdfs

    def create_uploader(self) -> ClusterCache:
        files = WebHdfs([self.hdfs.url], WebLogin(user="ann"))
        return ClusterCache(files, "hdfs://nn:8020", STAGING, "scheduler.yarn.staging")


@pytest.fixture
def cluster() -> Iterator[FakeClusterClients]:
    with FakeWebHdfs() as hdfs:
        yield FakeClusterClients(hdfs)


@pytest.fixture
def wanted(tmp_path: Path) -> list[UploadRequest]:
    """The archive of our programs, and a file of the user's."""
    found = []
    for name, content, public in (("runtime.zip", b"programs", True), ("data", b"secret data", False)):
        (tmp_path / name).write_bytes(content)
        found.append(UploadRequest(path=tmp_path / name, name=name, size=len(content), public=public))
    return found


def provide(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> tuple[dict[str, RemoteFile], int]:
    uploader = cluster.create_uploader()
    try:
        return uploader.provide(wanted), uploader.sent
    finally:
        uploader.close()


def content(cluster: FakeClusterClients, name: str) -> bytes | None:
    return cluster.hdfs.files[f"{CACHE}/{name}"].content


def names(cluster: FakeClusterClients) -> list[str]:
    return sorted(path.removeprefix(CACHE + "/") for path in cluster.hdfs.files if path.startswith(CACHE + "/"))


def test_first_and_second_submission(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """What nodes must know is exact; the second one sends nothing, and asks only twice."""
    first, sent = provide(cluster, wanted)
    assert sent == 19
    assert first == {
        "runtime.zip": RemoteFile(
            address=f"hdfs://nn:8020{CACHE}/runtime.zip", size=8, timestamp=1_700_000_000_123, public=True
        ),
        "data": RemoteFile(address=f"hdfs://nn:8020{CACHE}/data", size=11, timestamp=1_700_000_000_123),
    }
    assert content(cluster, "data") == b"secret data"
    provide(cluster, wanted)  # notes the use: the fake clock does not advance, long ago
    before = len(cluster.hdfs.requests)
    assert provide(cluster, wanted) == (first, 0)
    asked = {operation for operation, _ in cluster.hdfs.requests[before:]}
    assert asked <= {"LISTSTATUS_BATCH", "LISTSTATUS", "GETFILESTATUS"}


def test_permissions_of_uploads(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """The user's files are readable by their owner only, also where folders are open to all."""
    provide(cluster, wanted)
    modes = {path: f"{file.permission:o}" for path, file in cluster.hdfs.files.items()}
    assert modes[f"{CACHE}/data"] == "600"
    assert modes[f"{CACHE}/runtime.zip"] == "644"
    assert modes[STAGING] == modes[CACHE] == "755"
    assert modes[f"{CACHE}/{MARKER}"] == "700"


def test_public_only_where_all_may_go(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """YARN refuses a public file below a folder that is closed to others; then it is private."""
    cluster.hdfs.files["/user"] = FakeFile(permission=0o700)
    found, _ = provide(cluster, wanted)
    assert not found["runtime.zip"].public
    cluster.hdfs.files["/user"].permission = 0o711
    assert provide(cluster, wanted)[0]["runtime.zip"].public


def test_wrong_size_is_sent_again(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Objects are never rewritten; a damaged one is replaced all the same."""
    provide(cluster, wanted)
    cluster.hdfs.files[f"{CACHE}/data"].content = b"short"
    assert provide(cluster, wanted)[1] == 11
    assert content(cluster, "data") == b"secret data"


@pytest.mark.parametrize("trouble", [Trouble.HANG_UP_AFTER_HALF, Trouble.NO_SPACE, Trouble.QUOTA])
def test_half_written(cluster: FakeClusterClients, wanted: list[UploadRequest], trouble: Trouble) -> None:
    """What did not arrive whole never has the name, and nothing of it stays."""
    cluster.hdfs.fail_next("CREATE", *[trouble] * 10)
    with pytest.raises((HadoopError, StorageError)):
        provide(cluster, wanted[1:])
    assert names(cluster) == [MARKER]
    cluster.hdfs.troubles_over()
    assert provide(cluster, wanted[1:])[1] == 11


def test_arrived_otherwise(cluster: FakeClusterClients, wanted: list[UploadRequest], tmp_path: Path) -> None:
    """A file that changed while it was sent is no object."""
    (tmp_path / "data").write_bytes(b"longer than before")
    with pytest.raises(SchedulerError, match="has 18 bytes, but 11 were uploaded"):
        provide(cluster, wanted)


def test_two_clients_at_once(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Both end up with the same objects, whichever comes second."""
    found: list[dict[str, RemoteFile]] = []
    threads = [threading.Thread(target=lambda: found.append(provide(cluster, wanted)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [found[0]] * 4
    assert names(cluster) == [MARKER, "data", "runtime.zip"]
    assert content(cluster, "runtime.zip") == b"programs"


def test_use_is_noted_once_a_day(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """By the access time; the modification time, which nodes compare, stays."""
    before, _ = provide(cluster, wanted)
    began = time.time() * 1000
    after, sent = provide(cluster, wanted)
    assert (after, sent) == (before, 0)
    file = cluster.hdfs.files[f"{CACHE}/data"]
    assert file.modified_ms == 1_700_000_000_123
    assert began - 1000 <= file.accessed_ms <= time.time() * 1000
    noted = file.accessed_ms = file.accessed_ms - DAY // 2
    provide(cluster, wanted)
    assert file.accessed_ms == noted


def test_an_object_removed_before_its_use_is_noted(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Another client removed it between the two checks: it is uploaded again."""
    provide(cluster, wanted)
    cluster.hdfs.before("SETTIMES", lambda path: cluster.hdfs.files.pop(path, None))
    assert provide(cluster, wanted)[1] == 19
    assert content(cluster, "data") == b"secret data"


def test_folder_of_another_user(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Their objects could not be read by our containers: told before anything runs."""
    provide(cluster, wanted)
    cluster.hdfs.fail_next("SETTIMES", Trouble.FORBIDDEN)
    with pytest.raises(
        SchedulerError, match=r"^the staging folder hdfs://nn:8020/user/ann/.tony belongs to ann\. Each user"
    ):
        provide(cluster, wanted)


def test_no_access_times(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Where HDFS keeps none, jobs run all the same."""
    provide(cluster, wanted)
    cluster.hdfs.fail_next("SETTIMES", *[Trouble.NO_SPACE] * 2)  # any IOException
    assert provide(cluster, wanted)[1] == 0


def test_eviction_is_due_once_a_day(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """Not at the very first submission; then when the last look is a day ago."""
    uploaders = [cluster.create_uploader() for _ in range(3)]
    assert [uploader.eviction_is_due for uploader in uploaders] == [False] * 3
    uploaders[0].provide(wanted)
    assert not uploaders[0].eviction_is_due
    marker = cluster.hdfs.files[f"{CACHE}/{MARKER}"]
    marker.modified_ms = int(time.time() * 1000) - DAY - 1000
    uploaders[1].provide(wanted)
    assert uploaders[1].eviction_is_due
    uploaders[1].evict(None)
    assert [uploader.eviction_is_due for uploader in uploaders] == [False] * 3
    marker.modified_ms = int(time.time() * 1000)
    uploaders[2].provide(wanted)
    assert not uploaders[2].eviction_is_due
    for uploader in uploaders:
        uploader.close()


@pytest.mark.parametrize(
    ("names_left", "space_left", "told"),
    [
        (
            -1,
            1 << 20,
            r"11 bytes have to be uploaded, but the quota of /user leaves 1m of 1m \(while being written",
        ),
        (9, -1, r"11 bytes have to be uploaded, but the quota of /user leaves 4 of 9 names\. Delete files"),
        (5, 1 << 20, r"leaves 1m of 1m .* and leaves 0 of 5 names\."),
        (-1, -1, r"11 bytes have to be uploaded\. Delete files"),
    ],
)
def test_a_quota_is_used_up(
    cluster: FakeClusterClients, wanted: list[UploadRequest], names_left: int, space_left: int, told: str
) -> None:
    """Which folder's it is, how much is left of it, how much was needed, and the setting."""
    provide(cluster, [])
    folder = cluster.hdfs.files["/user"]
    folder.most_names, folder.most_space = names_left, space_left
    cluster.hdfs.fail_next("CREATE", Trouble.QUOTA)
    with pytest.raises(StorageError, match=told) as failed:
        provide(cluster, wanted[1:])
    assert str(failed.value).startswith(f"not enough space in hdfs://nn:8020{STAGING} (scheduler.yarn.staging): ")
    assert str(failed.value).endswith("HDFS says: The DiskSpace quota of /q is exceeded")


def test_the_data_nodes_are_full(cluster: FakeClusterClients, wanted: list[UploadRequest]) -> None:
    """What is left in all is told; an older NameNode does not tell it."""
    for trouble, told in ((), "all DataNodes together have 1m left"), ((Trouble.FORBIDDEN,), "uploaded. Delete"):
        cluster.hdfs.fail_next("CREATE", Trouble.NO_SPACE)
        cluster.hdfs.fail_next("GETSTATUS", *trouble)
        with pytest.raises(StorageError) as failed:
            provide(cluster, wanted[1:])
        assert told in str(failed.value)


#: The fake NameNode's clock.
NOW = 1_700_000_000_123


class Store:
    """A cache with objects that were used so many days ago."""

    def __init__(self, cluster: FakeClusterClients) -> None:
        self.hdfs = cluster.hdfs
        self.cache = cluster.create_uploader()
        self.cache._used = ["used"]
        for path in (STAGING, CACHE, f"{CACHE}/{MARKER}"):
            self.hdfs.files[path] = FakeFile()
        self.put("used", modified=400, accessed=0)

    def put(self, name: str, *, modified: float, accessed: float | None = None) -> None:
        self.hdfs.files[f"{CACHE}/{name}"] = FakeFile(
            content=b"x",
            modified_ms=int(NOW - modified * DAY),
            accessed_ms=0 if accessed is None else int(NOW - accessed * DAY),
        )

    def evict(self, oldest_live: float | None = None) -> int:
        """Args: days since the start of the oldest live application."""
        return self.cache.evict(None if oldest_live is None else int(NOW - oldest_live * DAY))

    @property
    def names(self) -> list[str]:
        return sorted(path.removeprefix(CACHE + "/") for path in self.hdfs.files if path.startswith(CACHE + "/"))


@pytest.fixture
def store(cluster: FakeClusterClients) -> Iterator[Store]:
    made = Store(cluster)
    yield made
    made.cache.close()


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
