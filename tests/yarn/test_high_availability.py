"""High availability: the active one of two ResourceManagers, or of two NameNodes, dies or steps back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.change_detection import CLUSTER
from tests.e2e.test_tensorboard import fetch
from tests.hadoop.clients import resource_manager
from tests.mini_clusters import Clusters
from tests.yarn.ha_clusters import Nothing, PairedCluster, PairedLab, Standing, paired_options
from tests.yarn.lab import YarnLab, one_user, until, user
from tests.yarn.test_daemons import RESUMES
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import ServiceAddress, find_name_service, list_resource_managers
from tony.hadoop.errors import StandbyError
from tony.hadoop.failover import FailoverProxy, Policy
from tony.hadoop.hdfs.namenode_rpc import RECOVER_LEASE, RecoverLeaseRequest
from tony.hadoop.hdfs.webhdfs import WebHdfs, WebOptions
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.ipc.connection import connect
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.wire.proto import ProtoMessage
from tony.hadoop.wire.rpc import Method
from tony.schedulers.yarn.client.web_links import list_application_links

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO = "[roles.worker]\ninstances = 2\n"
HELLO = 'command = "echo hello"\n'
WAITS = 'command = "touch $OUT/waits; sleep 3600"\n'


#: A standby ResourceManager listens to its administrators alone.
_REFRESH = Method(
    protocol="org.apache.hadoop.yarn.server.api.ResourceManagerAdministrationProtocolPB",
    name="refreshQueues",
    request=Nothing,
    response=Nothing,
)
_PATIENT = Policy(give_up_after=60.0, shortest=0.1, longest=0.3)


@pytest.fixture
def pairs(clusters: Clusters) -> PairedCluster:
    """The cluster, shared by this file's tests; the first of each pair is active."""
    found = cast(PairedCluster, clusters.with_options(paired_options(), PairedCluster))
    for name in ("rm", "nn"):
        found.activate(name)
    return found


@pytest.fixture
def lab(pairs: PairedCluster) -> Iterator[PairedLab]:
    with one_user(lambda folder: PairedLab(folder, pairs)) as made:
        yield made


def submitted(lab: YarnLab, file: Path) -> tuple[subprocess.Popen[str], str]:
    """Submit a job of `RESUMES` and follow it until both workers run."""
    follower = lab.follow("submit", file, "--scheduler", "yarn")
    lab.wait_wrote("0.1"), lab.wait_wrote("1.1")
    job = lab.only_job()
    lab.wait(job, "running")
    return follower, job


def ended(follower: subprocess.Popen[str]) -> str:
    """What the follower of a job that succeeds has said."""
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 0, out + err
    return out + err


def listed(lab: YarnLab) -> dict[str, dict[str, Any]]:
    done = lab.tony("list", "--scheduler", "yarn", "--json")
    assert done.returncode == 0, done.stderr
    return {each["job"]: each for each in json.loads(done.stdout)}


def attempts(lab: YarnLab, job: str) -> int:
    """How many application masters YARN has started."""

    async def ask() -> int:
        async with resource_manager(Configuration.load(lab.cluster.conf, {}), {}, _PATIENT) as manager:
            current = (await manager.report(ids.parse_application_id(job))).current_attempt
            return (current.number if current else None) or 0

    return asyncio.run(ask())


async def found_behind_a_standby(
    daemons: Sequence[ServiceAddress], method: Method[Any, Any], request: ProtoMessage
) -> str:
    """Who carries a call out that the first one asked refuses, for it is standby."""
    login = LoginIdentity(user=user())
    connection = await connect(daemons[0].address, login, protocol=method.protocol)
    try:
        with pytest.raises(StandbyError):
            await connection.call(method, request)
    finally:
        await connection.close()
    async with FailoverProxy(
        name="pair", daemons=daemons, login=login, protocol=method.protocol, policy=_PATIENT
    ) as proxy:
        assert proxy.active == daemons[0]
        await proxy.call(method, request)
        return proxy.active.id


@pytest.mark.on_change(*CLUSTER)
def test_a_resource_manager_is_killed(lab: PairedLab) -> None:
    """The standby takes over: the job keeps its containers and gets more, and status, submit and kill work."""
    follower, job = submitted(lab, lab.roles(RESUMES, TWO, "max_restarts = 1"))
    before, master, there = lab.tasks(job), lab.master_of(job), lab.elsewhere("there")
    other = there.detach(there.job(WAITS, name="waits.toml"))
    there.wait_wrote("waits")
    there.wait(other, "running")
    lab.pairs.kill("rm")  # now there is no active one, and for what this machine knows no need of one
    assert lab.status(job)["state"] == "running"
    done = there.tony("kill", other)
    assert done.returncode == 0, done.stderr
    lab.pairs.activate("rm2")

    late = lab.elsewhere("late")
    assert late.status(job)["state"] == "running"
    assert {task: each["pid"] for task, each in lab.tasks(job).items()} == {t: e["pid"] for t, e in before.items()}
    assert listed(late)[job]["state"] == "running"
    assert lab.wait_application(other)["finalStatus"] == "KILLED"
    assert late.submit(late.job(HELLO, name="hello.toml")).returncode == 0

    os.kill(before["worker:1"]["executor_pid"], 9)  # the next session needs a container of the new one
    lab.wait_wrote("0.2"), lab.wait_wrote("1.2")
    ended(follower)
    assert lab.wait_application(job)["finalStatus"] == "SUCCEEDED"
    assert len(lab.events_of(job, "granted")) > 2
    assert (attempts(lab, job), lab.status(job)["session"]) == (1, 2)
    assert not os.path.exists(f"/proc/{master}")


@pytest.mark.on_change(*CLUSTER)
def test_a_resource_manager_steps_back(lab: PairedLab) -> None:
    """It lives on as standby, hangs up and refuses; jobs and their followers go over to the other, and come back."""
    follower, job = submitted(lab, lab.roles(RESUMES, TWO))
    before = lab.tasks(job)
    for name in ("rm2", "rm"):
        lab.pairs.activate(name)
        there = lab.elsewhere(name)
        assert there.status(job)["state"] == "running"
        other = there.detach(there.job(WAITS, name="waits.toml"))
        there.wait_wrote("waits")
        done = lab.tony("kill", other)
        assert done.returncode == 0, done.stderr
        assert lab.wait_application(other)["finalStatus"] == "KILLED"
    settings = Configuration.load(lab.cluster.conf, {})
    for link in list_application_links(settings, job, ended=False):  # the standby's lead to the other's
        status, page, _ = fetch(link.href)
        assert (status, job in page) == (200, True), link
    addresses = list_resource_managers(settings, address_key="admin.address", port=8033)
    assert asyncio.run(found_behind_a_standby(addresses[::-1], _REFRESH, Nothing())) == "rm1"
    assert {task: each["pid"] for task, each in lab.tasks(job).items()} == {t: e["pid"] for t, e in before.items()}
    lab.pairs.tell("rm", Standing.STANDBY)
    (lab.out / "gate").touch()  # there is no ResourceManager to report the end to
    lab.pairs.activate("rm2")
    ended(follower)
    assert lab.wait_application(job)["finalStatus"] == "SUCCEEDED"
    assert (attempts(lab, job), len(lab.events_of(job, "granted"))) == (1, 2)


@pytest.mark.on_change(*CLUSTER)
def test_no_resource_manager_is_active(lab: PairedLab) -> None:
    """Who submits then is told who refuses. Who follows a job that waits in its queue is told, too, and continues."""
    nodes = ("nm1", "nm2")
    with standing_still(lab, nodes):
        follower = lab.follow("submit", lab.job(HELLO), "--scheduler", "yarn")
        assert follower.stdout is not None
        # YARN has accepted it before the client knows: a client that has not heard of it yet does not follow the job.
        assert any("Directory: " in line for line in follower.stdout), ended(follower)
        lab.pairs.tell("rm", Standing.STANDBY)
        done = lab.submit(lab.job(HELLO, name="late.toml"))
        assert done.returncode == 3, done.stdout + done.stderr
        assert re.search(r"no ResourceManager answers for 10 s:.*rm1: .*rm2: ", done.stderr, re.DOTALL), done.stderr
        said = next(line for line in follower.stdout if "retrying" in line)
        assert "no ResourceManager answers for 10 s; retrying" in said
        lab.pairs.tell("rm2", Standing.ACTIVE)
    assert "hello" in ended(follower)
    lab.pairs.wait()


@contextmanager
def standing_still(lab: PairedLab, nodes: Sequence[str]) -> Iterator[None]:
    """NodeManagers say nothing, so that nothing is granted."""
    for node in nodes:
        lab.pairs.kill(node, signal.SIGSTOP)
    try:
        yield
    finally:
        for node in nodes:
            lab.pairs.kill(node, signal.SIGCONT)


@pytest.mark.on_change(*CLUSTER)
def test_a_name_node_is_killed(lab: PairedLab) -> None:
    """The job continues, and its record with it; the other one has the staged files, takes more, and serves nodes."""
    follower, job = submitted(lab, lab.roles(RESUMES, TWO, "max_restarts = 1"))
    record = f"/user/{user()}/.tony/jobs/{job}"
    until(lambda: lab.listed(record).get("events.1.jsonl"), "the record is there")
    before = lab.tasks(job)
    lab.pairs.kill("nn")
    assert lab.status(job)["state"] == "running"
    lab.pairs.activate("nn2")

    there = lab.elsewhere("there")
    assert there.status(job)["state"] == "running"
    done = there.submit(there.job('command = "cat new.txt"\n', {"new.txt": "staged anew"}, "new.toml"))
    assert done.returncode == 0, done.stderr
    assert "staged anew" in done.stdout

    os.kill(before["worker:1"]["executor_pid"], 9)
    ended(follower)
    late = lab.elsewhere("late")
    assert late.status(job)["state"] == "succeeded"
    assert {"summary.json", "events.1.jsonl", "am.log", "job.json"} == set(lab.kept(record))
    assert [each["event"] for each in late.events(job)] == [each["event"] for each in lab.events(job)]


@pytest.mark.on_change(*CLUSTER)
def test_a_name_node_is_standby(lab: PairedLab) -> None:
    """It says so, over RPC and over HTTP; who knows both finds the other, wherever the first of them stands."""
    lab.pairs.activate("nn2")
    assert lab.pairs.standing("nn") is Standing.STANDBY
    settings = Configuration.load(lab.cluster.conf, {})
    nodes = find_name_service(settings).name_nodes
    urls = [f"http://{node.web}" for node in nodes]
    path = f"/user/{user()}/{lab.root.name}"
    with (
        WebHdfs(urls[:1], WebLogin(user=user()), WebOptions(timeout=1.0)) as first,
        WebHdfs(urls, WebLogin(user=user())) as both,
    ):
        with pytest.raises(StandbyError, match="in state standby"):
            first.list("/")
        both.create(path, b"one")
        request = RecoverLeaseRequest(path=path, client_name="test")
        assert asyncio.run(found_behind_a_standby(nodes, RECOVER_LEASE, request)) == "nn2"
        lab.pairs.activate("nn")  # and back, with connections open
        both.append(path, b"two")
        assert first.read(path) == b"onetwo"
        assert both.delete(path)
    lab.pairs.activate("nn2")
    done = lab.submit(lab.job(HELLO))
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
