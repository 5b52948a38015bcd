"""Histories of all jobs in a Kubernetes namespace: shown by the portal as those of any other location."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.fake_am import logged, recorded, succeeded
from tests.kube.fake_api import FakeApi, Object, refuse
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.portal.test_indexed_jobs import portal, until
from tests.schedulers.kubernetes.fake_cluster import JOBS, write_kubeconfig
from tony.core.events import SessionOpened
from tony.errors import StorageError, UserError
from tony.history.job_record import write_summary
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home, JobFolder, build_segment_name
from tony.model.states import JobState
from tony.portal.histories.history_locations import open_location
from tony.schedulers.job_store import output_store
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.output_store import OutputStore
from tony.storage.stores.store_interface import FileStore
from tony.testing.sample_jobs import build_two_roles

ENDED, RUNNING, BROKEN = (f"kubernetes-20260101-00000{number}-0a1b2c" for number in range(3))
LOCATION = "kubernetes://c/ml"


class Namespace:
    """A namespace of a fake API server, with jobs."""

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.api, self.server = FakeApi(), server
        server.answer = self._answer
        self.client = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
        self._home = Home(folder / "submitter")
        self.kubeconfig = write_kubeconfig(folder, server.url)

    def _answer(self, request: Request) -> Answer:
        return refuse(403, "Forbidden") if "/secrets" in request.target else self.api.answer(request)

    def add(self, job: str, *, has_ended: bool = True, labels: dict[str, str | None] | None = None) -> JobFolder:
        """Add a job with an event log, and a summary if it has ended."""
        given = {"app.kubernetes.io/managed-by": "tony", **(labels or {})}
        metadata: Object = {"name": job, "labels": given, "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.api.objects[JOBS, job] = {"metadata": metadata}
        folder, record = recorded(
            self._home, job, replace(build_two_roles(), scheduler="kubernetes", scheduler_settings={"image": "i"})
        )
        logged(folder, [SessionOpened(session=1, reason="begun")])
        if has_ended:
            write_summary(folder, succeeded(folder, record))
        store = self.open(job)
        for path in folder.path.glob("*.json"):
            store.put(path.name, path)
        log = store.open_log(build_segment_name(1), 0.0, 1 << 20, lambda size: None)
        log.write(folder.events(1).read_bytes())
        log.close(10.0)
        return folder

    def open(self, job: str) -> ConfigMapJobStore:
        return ConfigMapJobStore(self.client, job, has_secrets=False)


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    with ScriptedServer().serve() as server:
        made = Namespace(server, tmp_path)
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
        yield made
        made.client.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "portal").mkdir()
    return Home(tmp_path / "portal")


@pytest.fixture
def store(namespace: Namespace, home: Home) -> Iterator[FileStore]:
    with closing(open_location(LOCATION, home, {})) as opened:
        yield opened


async def test_jobs_of_a_namespace_are_shown(namespace: Namespace, home: Home) -> None:
    """With the end of their output. No right to read Secrets is needed."""
    namespace.add(ENDED)
    namespace.add(RUNNING, has_ended=False)
    namespace.add(BROKEN, labels={"tony.dev/submission": "incomplete"})
    tails = [LogFileTail(name=f"{task}.s1.t1.out", offset=1 << 20, data=b"the end\n") for task in ("worker-0", "ps-0")]
    OutputStore(namespace.open(ENDED), 1).put(tails)
    async with portal(home, LOCATION) as source:
        page = await until(source, lambda page: len(page.heads) == 2)
        assert {head.job: head.state for head in page.heads} == {
            ENDED: JobState.SUCCEEDED,
            RUNNING: JobState.STARTING,
        }
        view = await source.find_job(ENDED)
        assert view is not None
        assert (await view.status()).state is JobState.SUCCEEDED
        assert [entry.event.kind for entry in await view.read_events()] == ["session-opened"]
        logs = view.task_logs("worker:0")
        (file,) = await logs.files()
        assert (await logs.read(file.name, 0, 100)).data == b"the end\n"
        assert await logs.explain_missing() == "1 MiB before the last 8 bytes of worker-0.s1.t1.out"
        assert not await view.links()


async def test_a_job_that_others_have_damaged_is_shown_as_such(namespace: Namespace, home: Home) -> None:
    namespace.add(ENDED)
    namespace.add(BROKEN)
    names = [name for name in namespace.api.list_names("configmaps") if name.startswith(f"{BROKEN}.job.json")]
    for name in names:
        namespace.api.update("/api/v1/namespaces/ml/configmaps", name, {"binaryData": {"content": "AAAA"}})
    async with portal(home, LOCATION) as source:
        page = await until(source, lambda page: len(page.heads) == 2)
    assert [bool(head.damaged) for head in sorted(page.heads, key=lambda head: head.job)] == [False, True]


def test_more_output_than_tony_stores_is_refused(
    namespace: Namespace, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.add(ENDED)
    monkeypatch.setattr(output_store, "_MAX_ALL_READ_BYTES", 100)
    OutputStore(namespace.open(ENDED), 1).put([LogFileTail(name="worker-0.s1.t1.out", offset=0, data=b"." * 100)])
    with pytest.raises(StorageError, match="more than 100 bytes"):
        store.read_tails(f"jobs/{ENDED}")


def test_files_are_found_and_read_in_part(namespace: Namespace, store: FileStore) -> None:
    folder = namespace.add(ENDED)
    events = folder.events(1).read_bytes()
    for path, content in (("job.json", folder.job.read_bytes()), (build_segment_name(1), events)):
        place = f"jobs/{ENDED}/{path}"
        found = store.find(place)
        assert found is not None
        assert (found.size, store.read(place, 1 << 20)) == (len(content), content)
        assert b"".join(store.read_pieces(place, 10)) == content[10:]
    assert [item.name for item in store.list()] == ["jobs"]
    assert (store.find("jobs/no-such-job"), store.find(f"jobs/{ENDED}/access.json")) == (None, None)
    with pytest.raises(StorageError, match="cannot be changed"):
        store.remove(f"jobs/{ENDED}")


@pytest.mark.parametrize(
    ("text", "address"),
    [("kubernetes://", "kubernetes://c/ml"), ("kubernetes:///eu", "kubernetes://c/eu"), ("kubernetes://c/", LOCATION)],
)
def test_the_current_context_is_the_default(namespace: Namespace, home: Home, text: str, address: str) -> None:
    with closing(open_location(text, home, {})) as opened:
        assert opened.address == address


def test_the_namespace_is_behind_the_last_slash(namespace: Namespace, home: Home) -> None:
    """Contexts of EKS are called by an ARN, which has one."""
    with pytest.raises(UserError, match=r"kubernetes://arn:aws/prod/ml: .*'?arn:aws/prod"):
        open_location("kubernetes://arn:aws/prod/ml", home, {})


def test_a_name_without_a_slash_may_be_either(namespace: Namespace, home: Home) -> None:
    with pytest.raises(UserError, match=r"Write kubernetes://c/ for a context, or kubernetes:///c for a namespace\."):
        open_location("kubernetes://c", home, {})


def test_a_context_that_does_not_exist_is_named(namespace: Namespace, home: Home) -> None:
    with pytest.raises(UserError, match=r"kubernetes://eu/ml.*eu"):
        open_location("kubernetes://eu/ml", home, {})
