"""The ends of tasks' output in ConfigMaps: read as they were written, within the limit of a job."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.kube.fake_api import FakeApi
from tests.kube.scripted_server import ScriptedServer
from tony.errors import StorageError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.log_file_tail import LogFileTail
from tony.schedulers.job_store import output_store
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.output_store import OutputStore, read_tails


@pytest.fixture
def store() -> Iterator[ConfigMapJobStore]:
    api = FakeApi()
    with ScriptedServer().serve() as server:
        server.answer = api.answer
        client = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
        yield ConfigMapJobStore(client, "job-1", "owner")
        client.close()


def build_tail(data: bytes, try_: int = 1, offset: int = 0) -> LogFileTail:
    return LogFileTail(name=f"worker-0.s1.t{try_}.out", offset=offset, data=data)


def test_tails_are_read_as_they_were_stored(store: ConfigMapJobStore) -> None:
    first = LogFileTail(
        name="worker-0.s1.t1.out", offset=7, data=bytes(range(256)), times=((0, 178_000_000_000), (5, 178_000_000_001))
    )
    second = build_tail("Größe\n".encode(), 2)
    kept = OutputStore(store, 1)
    kept.put([first])
    kept.put([second])
    assert [*read_tails(store)] == [first, second]
    assert [*store.list()] == ["output.1.1.jsonl"]


def test_the_longest_of_two_copies_counts(store: ConfigMapJobStore) -> None:
    """An AM attempt may not know what the one before has stored."""
    OutputStore(store, 1).put([build_tail(b"whole output")])
    later = OutputStore(store, 2)
    later.put([build_tail(b"output", offset=6), build_tail(b"next", 2)])
    later.put([build_tail(b"next", 2)])
    assert [each.data for each in read_tails(store)] == [b"whole output", b"next"]
    assert sorted(store.list()) == ["output.1.1.jsonl", "output.2.1.jsonl"]


def test_the_oldest_files_are_deleted_beyond_the_limit(
    store: ConfigMapJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_store, "_MAX_FILE_BYTES", 1000)
    monkeypatch.setattr(output_store, "MAX_OUTPUT_BYTES", 3000)
    OutputStore(store, 1).put(build_tail(b"a" * 400, try_) for try_ in range(1, 5))
    later = OutputStore(store, 2)
    for try_ in range(5, 9):
        later.put([build_tail(b"b" * 400, try_)])
    assert sorted(store.list()) == ["output.1.2.jsonl", "output.2.1.jsonl", "output.2.2.jsonl"]
    assert [each.name for each in read_tails(store)] == [f"worker-0.s1.t{try_}.out" for try_ in range(3, 9)]
    assert sum(each.size for each in store.list().values()) <= 3000


def test_output_that_cannot_be_packed_is_stored(store: ConfigMapJobStore) -> None:
    data = random.Random(1).randbytes(64 << 10)
    OutputStore(store, 1).put(build_tail(data, try_) for try_ in range(1, 30))
    assert [each.data for each in read_tails(store)] == [data] * 29


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"name":1,"offset":0,"data":"","times":[]}', b'{"name":"x","offset":-1,"data":"","times":[]}'],
)
def test_damaged_files_are_an_error(store: ConfigMapJobStore, line: bytes) -> None:
    store.put("output.1.1.jsonl", line)
    with pytest.raises(StorageError, match=r"output\.1\.1\.jsonl is damaged"):
        read_tails(store)
