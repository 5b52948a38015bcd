"""Handing a job over, and what is said of it later: with a fake ResourceManager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.yarn.samples import payload, record
from tests.support.hadoop.fake_applications import FakeApplications
from tests.support.hadoop.faults import HoldResponse
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.tokens import TokenCredentials, from_bytes
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import FinalStatus
from tony.hadoop.yarn.application_client import ApplicationRejectedError
from tony.model.job_spec import JobSpec, Role
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.yarn.client import submitter as submitters
from tony.schedulers.yarn.client.application_reports import to_application_status
from tony.schedulers.yarn.client.submitter import YarnSubmitter
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.settings import YarnSettings

JOB = "application_1700000000000_0007"
ID = ids.parse_application_id(JOB)


class Scene:
    """A fake ResourceManager, and a job that is ready for it."""

    def __init__(self, server: FakeIpcServer, folder: Path) -> None:
        self.server = server
        self.cluster = FakeApplications()
        self.cluster.serve(server)
        home = Home(folder)
        self.job = PreparedJob(home=home, folder=home.job(JOB), record=record())
        self.submitter = YarnSubmitter(home)

    def settle(self) -> None:
        address = self.server.address
        given = {
            "fs.defaultFS": "hdfs://127.0.0.1:1",
            "dfs.namenode.http-address": "127.0.0.1:1",
            "yarn.resourcemanager.address": f"{address.host}:{address.port}",
        }
        self.submitter._cluster = ClusterClients.from_configuration(
            Configuration.load(None, {}, given=given), {"HADOOP_USER_NAME": "ann"}
        )

    def state(self) -> ApplicationState:
        return self.cluster.applications[ID].state


@asynccontextmanager
async def scene(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(YarnSubmitter, "_provide", lambda *_: payload())  # staging has tests of its own
    monkeypatch.setattr(submitters, "_WITHDRAW_SECONDS", 2.0)
    async with FakeIpcServer() as server:
        made = Scene(server, folder)
        made.settle()
        yield made


async def test_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application has the job's id, and is left alone."""
    async with scene(tmp_path, monkeypatch) as made:
        await made.submitter.submit(made.job)
        assert made.state() is ApplicationState.ACCEPTED


@pytest.mark.parametrize("brings", [False, True])
async def test_only_fetched_tokens_are_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brings: bool) -> None:
    """Those that were fetched for the job; never the user's own, which others may need."""
    async with scene(tmp_path, monkeypatch) as made:
        token = Token(identifier=b"i", password=b"p", kind="HIVE_DELEGATION_TOKEN", service="hive")
        brought = TokenCredentials(tokens={"hive": token}) if brings else TokenCredentials()
        known = made.submitter._cluster
        assert known is not None
        made.submitter._cluster = ClusterClients.from_configuration(
            known.configuration, {"HADOOP_USER_NAME": "ann"}, brought
        )
        await made.submitter.submit(made.job)
        context = made.cluster.applications[ID].context
        assert (not brings) == context.cancel_tokens_when_complete
        assert context.am_container is not None
        assert from_bytes(context.am_container.tokens or b"").tokens == brought.tokens


@pytest.mark.parametrize("method", ["submitApplication", "getApplicationReport"])
async def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """An interrupted submission that YARN has not accepted yet leaves no application."""
    async with scene(tmp_path, monkeypatch) as made:
        hold = HoldResponse()
        made.server.order(hold, method=method)
        submitting = asyncio.ensure_future(made.submitter.submit(made.job))
        await hold.is_held.wait()
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert made.state() is ApplicationState.KILLED
        hold.release()


async def test_thrown_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is YARN's, and comes without delay."""
    async with scene(tmp_path, monkeypatch) as made:
        made.cluster.queues.clear()
        with pytest.raises(ApplicationRejectedError):
            await made.submitter.submit(made.job)
        assert made.state() is ApplicationState.FAILED


@pytest.mark.parametrize(
    ("state", "final", "result"),
    [
        (ApplicationState.RUNNING, None, None),
        (ApplicationState.FINISHED, FinalStatus.SUCCEEDED, JobState.SUCCEEDED),
        (ApplicationState.FINISHED, FinalStatus.FAILED, JobState.FAILED),
        (ApplicationState.FINISHED, FinalStatus.KILLED, JobState.KILLED),
        (ApplicationState.FAILED, FinalStatus.FAILED, None),
        (ApplicationState.KILLED, FinalStatus.KILLED, JobState.KILLED),
    ],
)
def test_the_outcome_that_yarn_reports(
    state: ApplicationState, final: FinalStatus | None, result: JobState | None
) -> None:
    """The AM's final status counts; an AM that failed without one says nothing about the job's programs."""
    seen = to_application_status(ApplicationReport(id=ID, state=state, final_status=final))
    assert (seen.result, seen.alive) == (result, state is ApplicationState.RUNNING)


def test_the_pending_reason_of_an_application_has_no_numbers() -> None:
    """YARN's text changes with every request; its meaning does not."""
    said = (
        "[Sat Nov 21 16:00:00 +0000 2026] Application is added to the scheduler and is not yet activated. Queue's AM "
        "resource limit exceeded.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:512>; "
    )
    waiting = to_application_status(ApplicationReport(state=ApplicationState.ACCEPTED, diagnostics=said))
    assert mentions(waiting.note, "AM")
    ended = to_application_status(ApplicationReport(state=ApplicationState.FAILED, diagnostics=said))
    assert ended.note == said.strip()


def test_a_configuration_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job names a folder of the machine that submitted it; on others the environment does."""
    site = "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn:8020</value></property></configuration>"
    (tmp_path / "core-site.xml").write_text(site)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(submitters, "load_recorded_settings", lambda _: YarnSettings(conf="/nowhere/conf"))
    found = YarnSubmitter(Home(tmp_path))._find_cluster("application_1700000000000_0007")
    assert found.files.uri == "hdfs://nn:8020"


async def test_checked_against_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of questions; nodes that are away are told of, and not named to the application master."""
    async with scene(tmp_path, monkeypatch) as made:
        cluster = made.submitter._cluster
        monkeypatch.setattr(submitters, "find_cluster", lambda *_: cluster)
        made.cluster.lose("node-1")
        spec = JobSpec(command="true", roles={"worker": Role(instances=1)})
        assert made.submitter.notices(spec) == ()
        assert await asyncio.to_thread(made.submitter.check, spec) == []
        assert any("node-1 (lost)" in sentence for sentence in made.submitter.notices(spec))
        assert made.submitter._nodes == {}
        assert made.submitter.allocate_job_id()


def test_a_file_system_of_its_own_for_logs() -> None:
    """Each is asked at its own NameNode; one that is only a path lies in the default one."""
    given = {
        "fs.defaultFS": "hdfs://nn:8020",
        "dfs.namenode.http-address": "nn:9870",
        "dfs.nameservices": "logs",
        "dfs.ha.namenodes.logs": "a",
        "dfs.namenode.rpc-address.logs.a": "other:8020",
        "dfs.namenode.http-address.logs.a": "other:9870",
    }
    key = "yarn.nodemanager.remote-app-log-dir"
    for folder, host in (("/app-logs", "nn"), ("hdfs://logs/app-logs", "other")):
        settings = Configuration.load(None, {}, given={**given, key: folder})
        with ClusterClients.from_configuration(settings, {"HADOOP_USER_NAME": "ann"}).web_files(key) as files:
            assert host in str(files._namenodes)
