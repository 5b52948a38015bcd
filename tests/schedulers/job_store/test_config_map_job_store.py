"""The files of a job in ConfigMaps: as in any other store, and nothing is left of what was replaced."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.fake_api import FakeApi
from tests.kube.scripted_server import ScriptedServer
from tests.support.waiting import wait_until
from tony.errors import AttemptSupersededError, StorageError
from tony.kube.api_client import ApiClient, Object
from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import AnswerLostError, KubeApiError
from tony.kube.resources import ApiResource
from tony.model.state_directory import build_segment_name
from tony.schedulers.job_store import config_map_job_store
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.event_log_replication import ReplicatedJournal
from tony.schedulers.job_store.job_objects import build_owner

EVENTS = build_segment_name(1)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi) -> Iterator[ApiClient]:
    with ScriptedServer().serve() as server:
        server.answer = api.answer
        found = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
        yield found
        found.close()


@pytest.fixture
def store(client: ApiClient) -> ConfigMapJobStore:
    return ConfigMapJobStore(client, "job-1", "owner")


def test_a_file_is_stored_replaced_and_deleted(store: ConfigMapJobStore, api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"second")
    store.put("job.json", b"first")
    store.put("job.json", tmp_path / "new")
    assert store.read("job.json", 0, 100) == b"second"
    assert store.read("job.json", 2, 3) == b"con"
    found = store.list()["job.json"]
    assert (found.size, store.find("job.json")) == (6, found)
    store.delete("job.json")
    store.delete("job.json")
    assert (store.list(), store.find("job.json"), store.read("job.json", 0, 1)) == ({}, None, None)
    assert not api.objects


def test_a_large_file_has_several_objects(
    store: ConfigMapJobStore, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_map_job_store, "_MAX_OBJECT_BYTES", 100)
    data = bytes(range(256)) * 3
    for _ in range(2):
        store.put("metrics.db", data)
        assert store.read("metrics.db", 0, 10_000) == data
        assert len(api.list_names("configmaps")) == 3
    monkeypatch.setattr(config_map_job_store, "MAX_FILE_BYTES", 100)
    with pytest.raises(StorageError, match=r"metrics.db has \d+ packed bytes"):
        store.put("metrics.db", data)
    store.delete("metrics.db")
    assert not api.objects


@pytest.mark.parametrize("failing", range(1, 6))
def test_nothing_is_left_of_a_version_whose_request_failed(
    store: ConfigMapJobStore, client: ApiClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Of one that was not completed, or replaced: the next version removes its pieces."""
    monkeypatch.setattr(config_map_job_store, "_MAX_OBJECT_BYTES", 100)
    store.put("metrics.db", bytes(range(256)) * 3)
    send, requests = client._request, itertools.count(1)

    def fail_once(*words: Any, **options: Any) -> Any:
        if next(requests) == failing:
            raise KubeApiError("busy", status=429, reason="TooManyRequests", text="busy")
        return send(*words, **options)

    monkeypatch.setattr(client, "_request", fail_once)
    for number in range(2):
        with contextlib.suppress(KubeApiError):
            store.put("metrics.db", bytes(range(256)) * 3 + bytes([number]))
    assert next(requests) > failing
    assert len(api.list_names("configmaps")) == 3


def test_credentials_are_a_secret(store: ConfigMapJobStore, api: FakeApi) -> None:
    store.put("access.json", b"secret")
    assert api.list_names("secrets") == ["job-1.access.json"]
    assert store.read("access.json", 0, 10) == b"secret"
    assert "access.json" in store.list()


def test_every_object_belongs_to_the_job(store: ConfigMapJobStore, api: FakeApi) -> None:
    store.put("job.json", b"x")
    store.open_log(EVENTS, 0.0, 100, lambda _: None).close(60)
    for each in api.objects.values():
        assert each["metadata"]["ownerReferences"] == [build_owner("job-1", "owner")]


def test_a_log_is_read_while_it_grows_and_fenced(store: ConfigMapJobStore, client: ApiClient, api: FakeApi) -> None:
    changed = threading.Event()
    log = store.open_log(EVENTS, 0.0, 1000, lambda _: changed.set())
    log.write(b"one\ntwo\n")
    assert changed.wait(60)
    assert store.read(EVENTS, 0, 100) == b"one\ntwo\n"
    assert store.read(EVENTS, 4, 100) == b"two\n"
    assert store.list()[EVENTS].size == 8
    later = ConfigMapJobStore(client, "job-1", "owner")
    found = later.take_over_log(EVENTS)
    assert found is not None
    assert (found.name, found.size) == ("events.1.closed.jsonl", 8)
    assert later.read(found.name, 0, 100) == b"one\ntwo\n"
    assert store.is_taken_over(EVENTS)
    log.write(b"three\n")
    log.close(60)
    assert log.error is not None
    assert later.read(found.name, 0, 100) == b"one\ntwo\n"


def test_each_am_attempt_claims_a_number_of_its_own(client: ApiClient) -> None:
    stores = [ConfigMapJobStore(client, "job-1") for _ in range(3)]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda each=each: found.append(each.claim_attempt(build_segment_name)))
        for each in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [1, 2, 3]


def test_a_log_is_written_by_the_process_that_has_claimed_it(store: ConfigMapJobStore, client: ApiClient) -> None:
    assert store.claim_attempt(build_segment_name) == 1
    store.open_log(EVENTS, 0.0, 100, lambda _: None).close(60)
    with pytest.raises(StorageError, match="another process writes"):
        ConfigMapJobStore(client, "job-1").open_log(EVENTS, 0.0, 100, lambda _: None)


def test_a_claim_is_repeated_with_the_same_result(store: ConfigMapJobStore) -> None:
    """The answer to the claim may have been lost."""
    assert [store.claim_attempt(build_segment_name) for _ in range(2)] == [1, 1]


def test_a_log_with_a_missing_piece_is_not_read_as_a_shorter_one(store: ConfigMapJobStore, api: FakeApi) -> None:
    changed = threading.Event()
    log = store.open_log(EVENTS, 0.0, 1000, lambda _: changed.set())
    for line in (b"one\n", b"two\n"):
        changed.clear()
        log.write(line)
        assert changed.wait(60)
    log.close(60)
    api.remove("/api/v1/namespaces/ml/configmaps", f"job-1.{EVENTS}.000001")
    with pytest.raises(StorageError, match=r"events\.1\.jsonl: pieces are missing"):
        store.read(EVENTS, 0, 100)


def test_a_file_whose_creation_was_not_confirmed_keeps_its_pieces(
    client: ApiClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_map_job_store, "_MAX_OBJECT_BYTES", 100)
    create = client.create

    def lose_answer(resource: ApiResource, body: Object, **options: bool) -> Object:
        created = create(resource, body, **options)
        if body["metadata"]["name"] == "job-1.metrics.db":
            monkeypatch.setattr(client, "create", create)
            raise AnswerLostError("the connection broke")
        return created

    monkeypatch.setattr(client, "create", lose_answer)
    store = ConfigMapJobStore(client, "job-1", "owner")
    data = bytes(range(256)) * 3
    store.put("metrics.db", data)
    assert store.read("metrics.db", 0, 10_000) == data


def test_a_superseded_writer_needs_no_answer_to_know_it(
    store: ConfigMapJobStore, client: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its piece was refused: an API server that does not answer again must not let it continue without a log."""

    def fail(_: str) -> bool:
        raise AnswerLostError("the connection broke")

    async def run() -> None:
        segment = tmp_path / EVENTS
        segment.write_bytes(b"header\n")
        journal = ReplicatedJournal(segment, store, lambda _: None)
        await wait_until(lambda: store.read(EVENTS, 0, 100) == b"header\n")
        monkeypatch.setattr(store, "is_taken_over", fail)
        ConfigMapJobStore(client, "job-1", "owner").take_over_log(EVENTS)
        with segment.open("ab") as file:
            file.write(b"one\n")
        journal.note_written(segment.stat().st_size, urgent=True)
        with pytest.raises(AttemptSupersededError):
            await asyncio.wait_for(journal.watch(), 60)
        with pytest.raises(StorageError, match="were not written"):
            await journal.finish()

    asyncio.run(run())
