"""Objects reach the claim of `staging` whole or not at all, whatever breaks."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kube.fake_api import FakeApi, Object
from tests.kube.scripted_server import ScriptedServer
from tests.schedulers.kubernetes.fake_staging import FakeStaging
from tony.errors import SchedulerError, StorageError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.schedulers.kubernetes import staging_pod, staging_receiver
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_pod import StagingPod
from tony.schedulers.kubernetes.staging_receiver import KEEP_SECONDS, remove_unused

PODS = "/api/v1/namespaces/ml/pods"
RUNNING: Object = {"status": {"phase": "Running"}}
CONTENT = bytes(range(256)) * (3 << 12)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi) -> Iterator[ApiClient]:
    with ScriptedServer().serve() as server:
        server.answer = api.answer
        found = ApiClient(ClusterAccess(server=server.url, namespace="ml"), give_up_seconds=0)
        yield found
        found.close()


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStaging]:
    with FakeStaging(tmp_path / "claim" / "staging").serve() as found:
        monkeypatch.setattr(staging_pod, "forward_port", found.connect)
        yield found


@pytest.fixture
def pod(client: ApiClient, api: FakeApi, staging: FakeStaging) -> Iterator[StagingPod]:
    with StagingPod(client, {"metadata": {"name": "job-staging"}, **RUNNING}, Cancellation()) as found:
        yield found
    assert not api.list_names("pods")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "object"
    found.write_bytes(CONTENT)
    return found


def list_content(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_an_object_is_sent_once(pod: StagingPod, staging: FakeStaging, path: Path) -> None:
    assert pod.send(DIGEST, path) == len(CONTENT)
    assert list_content(staging.folder) == {DIGEST: CONTENT}
    assert pod.send(DIGEST, path) == 0


def test_a_transfer_continues_where_its_connection_broke(pod: StagingPod, staging: FakeStaging, path: Path) -> None:
    staging.cuts = [10, len(CONTENT) // 2, 0, len(CONTENT) // 2]
    pod.send(DIGEST, path)
    assert list_content(staging.folder) == {DIGEST: CONTENT}
    assert not staging.cuts


def test_an_incomplete_object_of_another_client_is_completed(pod: StagingPod, staging: FakeStaging, path: Path) -> None:
    staging.folder.mkdir(parents=True)
    part = staging.folder / f".{DIGEST}.part"
    part.write_bytes(CONTENT[: 1 << 20])
    assert pod.send(DIGEST, path) == len(CONTENT) - (1 << 20)
    assert list_content(staging.folder) == {DIGEST: CONTENT}


@pytest.mark.parametrize("name", [DIGEST, f".{DIGEST}.part"], ids=["object", "part"])
@pytest.mark.parametrize(("kept", "more"), [(3, b"other"), (-1, b"?"), (None, b"more")])
def test_damaged_content_is_replaced(
    pod: StagingPod, staging: FakeStaging, path: Path, name: str, kept: int | None, more: bytes
) -> None:
    staging.folder.mkdir(parents=True)
    (staging.folder / name).write_bytes(CONTENT[:kept] + more)
    pod.send(DIGEST, path)
    assert list_content(staging.folder) == {DIGEST: CONTENT}


@pytest.mark.parametrize("name", [DIGEST, f".{DIGEST}.part"], ids=["object", "part"])
def test_a_client_waits_longer_for_an_answer_while_an_object_is_read(
    pod: StagingPod, staging: FakeStaging, path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 0.6 s."""

    class SlowHash:
        def __init__(self) -> None:
            self._real = hashlib.sha256()
            self.hexdigest = self._real.hexdigest

        def update(self, data: bytes) -> None:
            time.sleep(0.05)
            self._real.update(data)

    monkeypatch.setattr(staging_receiver, "hashlib", SimpleNamespace(sha256=SlowHash))
    monkeypatch.setattr(staging_receiver, "_CHUNK_BYTES", len(CONTENT) // 12)
    monkeypatch.setattr(staging_receiver, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(staging_pod, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(staging_pod, "_STUCK_SECONDS", 2.0)
    staging.folder.mkdir(parents=True)
    (staging.folder / name).write_bytes(CONTENT)
    assert pod.send(DIGEST, path) == 0
    assert list_content(staging.folder) == {DIGEST: CONTENT}


def test_two_receivers_of_one_object(
    pod: StagingPod, staging: FakeStaging, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither writes into the other's file, though one is done while the other has only begun."""
    with FakeStaging(staging.folder).serve() as second:
        connection = staging.connect(pod._client, "", 0)
        with connection, connection.makefile("rwb") as stream:
            stream.readline()
            stream.write(b'{"digest": "%s", "size": %d}\n' % (DIGEST.encode(), len(CONTENT)))
            stream.flush()
            assert b"offset" in stream.readline()
            monkeypatch.setattr(staging_pod, "forward_port", second.connect)
            assert pod.send(DIGEST, path) == len(CONTENT)
            assert (staging.folder / DIGEST).read_bytes() == CONTENT
            stream.write(CONTENT)
            stream.flush()
            assert b"stored" in stream.readline()
    assert list_content(staging.folder) == {DIGEST: CONTENT}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_written_to(
    pod: StagingPod, staging: FakeStaging, path: Path, tmp_path: Path, kind: str
) -> None:
    """As a file of another user, which cannot be opened: the object is received in a file of its own."""
    staging.folder.mkdir(parents=True)
    part, other = staging.folder / f".{DIGEST}.part", tmp_path / "other"
    other.write_bytes(b"other")
    if kind == "link":
        part.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.mkdir()
    assert pod.send(DIGEST, path) == len(CONTENT)
    assert (staging.folder / DIGEST).read_bytes() == CONTENT
    assert other.read_bytes() == b"other"


def test_a_receiver_that_is_killed_before_it_renames_leaves_a_file_that_can_be_completed(
    pod: StagingPod, staging: FakeStaging, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        monkeypatch.setattr(os, "replace", replace)
        raise OSError(errno.EIO, "killed")

    replace = os.replace
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SchedulerError, match=r"killed|Input/output"):
        pod.send(DIGEST, path)
    assert (staging.folder / f".{DIGEST}.part").stat().st_mode & 0o200
    assert pod.send(DIGEST, path) == 0
    assert list_content(staging.folder) == {DIGEST: CONTENT}


def test_a_volume_that_cannot_be_written_is_named(pod: StagingPod, staging: FakeStaging, path: Path) -> None:
    staging.folder.parent.write_text("a file")
    with pytest.raises(SchedulerError, match=r"cannot write .*claim/staging as user \d+: Not a directory"):
        pod.send(DIGEST, path)


def test_a_volume_without_space_is_named(pod: StagingPod, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_receiver, "measure_free_bytes", lambda _: 1 << 20)
    with pytest.raises(SchedulerError, match=r"not enough space in the volume: 3 MiB needed, 1 MiB free"):
        pod.send(DIGEST, path)


def test_a_local_file_that_was_changed_is_not_sent_for_ever(
    pod: StagingPod, staging: FakeStaging, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_pod, "_STUCK_SECONDS", 0.0)
    path.write_bytes(b"other")
    with pytest.raises(SchedulerError, match="what was received is not"):
        pod.send(DIGEST, path)
    assert DIGEST not in list_content(staging.folder)


def test_a_local_file_that_is_missing_is_named_at_once(pod: StagingPod, staging: FakeStaging, path: Path) -> None:
    path.unlink()
    with pytest.raises(StorageError, match=f"cannot read {path}: No such file"):
        pod.send(DIGEST, path)
    assert not staging.connections


def test_objects_that_are_not_needed_are_removed_after_some_time(
    pod: StagingPod, staging: FakeStaging, path: Path
) -> None:
    """Files of the user stay, and incomplete objects of others."""
    names = [f"{letter}" * 64 for letter in "abcf"] + [f".{'d' * 64}.part", f".{'e' * 64}.part", "notes.txt"]
    staging.folder.mkdir(parents=True)
    for name in names:
        (staging.folder / name).write_bytes(b"x")
        if name[0] not in "c" and "e" not in name[:2]:
            os.utime(staging.folder / name, times=(0, time.time() - KEEP_SECONDS - 60))
    pod.remove_unused(["a" * 64, "f" * 40])
    assert sorted(list_content(staging.folder)) == sorted(
        ["a" * 64, "f" * 64, "c" * 64, f".{'e' * 64}.part", "notes.txt"]
    )


def test_an_object_that_is_received_again_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another receiver finds it complete, just when it was found to be old."""
    path = tmp_path / DIGEST
    path.write_bytes(CONTENT)
    os.utime(path, times=(0, 0))
    replace = os.replace

    def use_before(source: str, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        os.utime(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", use_before)
    remove_unused(tmp_path, [])
    assert list_content(tmp_path) == {DIGEST: CONTENT}


def test_a_pod_that_was_deleted_is_not_waited_for(client: ApiClient, api: FakeApi) -> None:
    """Its job was killed from another machine, or its node was lost."""
    pod = StagingPod(client, {"metadata": {"name": "p"}, "status": {}}, Cancellation())
    with pytest.raises(SchedulerError, match="the pod p was deleted"):
        pod._wait_until_running()


def test_a_pod_that_cannot_start_is_named(client: ApiClient, api: FakeApi) -> None:
    waiting = {"name": "tony", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}}
    body: Object = {"metadata": {"name": "p"}, "status": {"phase": "Pending", "containerStatuses": [waiting]}}
    with (
        pytest.raises(SchedulerError, match="the pod p cannot start: ErrImageNeverPull: no image"),
        StagingPod(client, body, Cancellation()),
    ):
        pass
    assert not api.list_names("pods")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pvc:data", "pvc:data/tony-staging"),
        ("pvc:data/a/b/", "pvc:data/a/b"),
        ("pvc:data//a//b", "pvc:data/a/b"),
        ("pvc:data//", "pvc:data/tony-staging"),
        ("pvc:data/./x", None),
        ("data", None),
        ("pvc:data/../x", None),
        ("pvc:data:ro", None),
        ("emptyDir", None),
    ],
)
def test_the_setting(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="pvc:CLAIM/FOLDER"):
            StagingClaim.from_text(text)
    else:
        assert str(StagingClaim.from_text(text)) == expected
