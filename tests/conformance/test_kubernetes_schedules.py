"""Whole jobs on a fake cluster, with real application masters, logs and wire, and faults at random moments.

Programs, executors, pods and application masters end at random; the API server refuses, delays and loses what it is
asked. A schedule is a number: what is random follows from it, but for the order of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.core.random_jobs import random_job
from tests.core.specs import COLLISION, FAILED, OK, SEGV
from tests.support.in_process_cluster import JOB_ID, InProcessCluster, RecordedServer, build_exit
from tests.support.random_schedules import play_block
from tony.am import main as am
from tony.am import unconfirmed_ends
from tony.core import events as ev
from tony.history.event_log import read, segments
from tony.history.job_record import read_summary
from tony.history.replay import replay
from tony.kube import api_client, object_watch
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec, Timeouts
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.retry import Backoff
from tony.schedulers.job_store import event_log_replication, piece_log, previous_attempts, record_publisher
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.record_download import RecordDownload
from tony.schedulers.kubernetes import am_pod, pod_groups, pod_requests
from tony.schedulers.kubernetes.pod_command import FAILED_EXIT_CODE

#: Seconds for one schedule: far more than any takes on a loaded machine.
CEILING = 120.0
FAULT_RATES = (0.0, 0.0, 0.03, 0.1, 0.25)
#: What starts gangs: PodGroups, nothing, or Kueue, whose groups have places.
GANGS: Sequence[Mapping[str, str]] = ({}, {"gang": "none"}, {"queue": "users"})
FAST = Backoff(first=0.003, most=0.05, jitter=0.5)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short: what is tested is their order."""
    monkeypatch.setattr(am, "RpcServer", RecordedServer)
    for module in (object_watch, am_pod, pod_groups, pod_requests, api_client, piece_log):
        monkeypatch.setattr(module, "_BACKOFF", FAST)
    for module in (event_log_replication, record_publisher):
        monkeypatch.setattr(module, "STORE_BACKOFF", FAST)
    for module, name in (
        (event_log_replication, "_WRITE_SECONDS"),
        (piece_log, "_URGENT_SECONDS"),
        (previous_attempts, "_RETRY_SECONDS"),
        (record_publisher, "_FINISH_RETRY_SECONDS"),
        (am_pod, "_INTERVAL_SECONDS"),
        (pod_requests, "_UNSEEN_SECONDS"),
        (unconfirmed_ends, "_PROOF_PAUSE_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.01)


def create_job(chance: Random) -> JobSpec:
    """Return a random job whose time limits do not slow the test down."""
    spec = random_job(chance)
    roles = {name: replace(role, timeout_after=None, stop_grace=0.0) for name, role in spec.roles.items()}
    settings = chance.choice(GANGS)
    return replace(
        spec, scheduler="kubernetes", scheduler_settings=settings, roles=roles, timeouts=Timeouts(), backoff=0.01
    )


async def disturb(cluster: InProcessCluster, chance: Random) -> None:
    """Let random things happen."""
    for _ in range(chance.randrange(25)):
        await asyncio.sleep(chance.random() * 0.03)
        if cluster.results:
            return
        pods, running = cluster.list_pods(), cluster.find_running()
        match chance.randrange(14):
            case 0 | 1 if pods:
                cluster.end_pod(chance.choice(pods), build_exit(chance.choice((1, 137))))
            case 2 if pods:
                disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
                cluster.end_pod(chance.choice(pods), {"conditions": [disruption]})
            case 3 if pods:
                cluster.delete_pod(chance.choice(pods))
            case 4 if pods:
                cluster.remove_pod(chance.choice(pods))
            case 5:
                cluster.break_connections()
            case 6 | 7 if running:
                chance.choice(running).exit(chance.choice((FAILED, SEGV, COLLISION, OK)))
            case 8 if cluster.attempts < 8:
                cluster.kill_master()
            case 9 if cluster.attempts < 8:
                cluster.start_another_master()
            case 10:
                cluster.faults.is_down = True
                await asyncio.sleep(chance.random() * 0.1)
                cluster.faults.is_down = False
            case 11:
                cluster.api.remove("/api/v1/namespaces/ml/configmaps", f"{JOB_ID}.am.json")
            case _ if running:
                chance.choice(running).exit(OK)


async def play(cluster: InProcessCluster, chance: Random, later: JobFolder) -> JobReport:
    """Run a job to its end; return its result as a client finds it afterwards."""
    with cluster.serve():
        async with asyncio.timeout(CEILING):
            running = asyncio.ensure_future(cluster.run())
            disturbing = asyncio.ensure_future(disturb(cluster, chance))
            await asyncio.wait({running, disturbing}, return_when=asyncio.FIRST_COMPLETED)
            await disturbing
            cluster.faults.rate /= 3  # a job must not need luck, but time
            succeeding = asyncio.ensure_future(cluster.succeed())
            await running
            succeeding.cancel()
            await cluster.stop_pods()
        cluster.faults.rate = 0.0
        client = ApiClient(ClusterAccess(server=cluster.url, namespace="ml"))
        await asyncio.to_thread(RecordDownload(ConfigMapJobStore(client, JOB_ID), later).fetch)
        report = read_summary(later)
        assert report is not None
        return report


def check(folder: Path, seed: int) -> None:
    """Play one schedule, and look at what is left of it."""
    chance = Random(seed)
    spec = create_job(chance)
    later = Home(folder / "later").job(JOB_ID)

    async def run() -> tuple[InProcessCluster, JobReport]:
        cluster = InProcessCluster(folder, spec, chance, chance.choice(FAULT_RATES))
        return cluster, await play(cluster, chance, later)

    cluster, report = asyncio.run(run())
    # An AM attempt that was started while the last one ended the job finds the same result.
    assert set(cluster.results) == {0 if report.state is JobState.SUCCEEDED else FAILED_EXIT_CODE}
    check_pods(cluster)
    check_log(cluster, later, report)


def check_pods(cluster: InProcessCluster) -> None:
    """No pod is left, and no program was started twice, or next to another one of its task."""
    assert cluster.list_pods() == []
    assert cluster.doubled == []
    tries = [(task, session, number) for task, session, number, _ in cluster.started]
    assert len(tries) == len(set(tries)), [each for each in cluster.started if tries.count(each[:3]) > 1]


def check_log(cluster: InProcessCluster, folder: JobFolder, report: JobReport) -> None:
    """The log leads to the result, and has all that was acknowledged."""
    entries = list(read(segments(folder.path)))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    again = replay(JOB_ID, cluster.spec, entries)
    assert again.mismatch is None
    assert again.app.state.final is not None
    assert again.app.state.final.state is report.state
    events = [entry.event for entry in entries]
    exited = {(event.task, event.session, event.try_) for event in events if isinstance(event, ev.Exited)}
    for executor in cluster.executors.values():
        for number, each in executor.exits.items():
            key = (executor.part.id, each.session, each.try_)
            assert number > executor.acknowledged or key in exited, f"{key} was acknowledged and is not in the log"


@pytest.mark.parametrize("block", range(4))
def test_whole_jobs_survive_random_trouble(block: int, tmp_path: Path) -> None:
    """There is one result, nothing is lost or doubled, and no pod is left."""
    play_block(range(block * 5, (block + 1) * 5), tmp_path, check)


@pytest.mark.long
@pytest.mark.parametrize("block", range(1, 31))
def test_hundreds_of_whole_jobs(block: int, tmp_path: Path) -> None:
    """As above, so often that the rare coincidences come as well."""
    play_block(range(block * 100, (block + 1) * 100), tmp_path, check)
