"""Nodes that the cluster gives up while programs on them run on: never two programs of one task at a time."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.e2e.lab import frozen
from tests.mini_clusters import options
from tests.yarn.lab import YarnLab, one_user, until
from tests.yarn.test_attempts import finish
from tony.linux import process
from tony.mini.daemon_requests import send_request

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER, *RUNTIME)]

SETTINGS = {
    "yarn.nm.liveness-monitor.expiry-interval-ms": "6000",
    "yarn.am.liveness-monitor.expiry-interval-ms": "45000",
}
#: Holds a lock of its task as long as it lives, and says so if another one holds it.
PROGRAM = """
import fcntl, os, time
out, task, session = os.environ["OUT"], os.environ["TASK_INDEX"], os.environ["SESSION_ID"]
lock = os.open(f"{out}/lock.{task}", os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(f"{out}/twice", "a").write(f"{task} in session {session}\\n")
open(f"{out}/{task}.{session}", "a").write(f"{os.getpid()}\\n")
while not os.path.exists(f"{out}/gate") and not os.path.exists(f"{out}/over.{task}.{session}"):
    time.sleep(0.05)
"""
#: One on each node: no two fit.
THREE = '[roles.worker]\ninstances = 3\nmemory = "2100m"\n'


@pytest.fixture
def lab(clusters: Clusters) -> Iterator[YarnLab]:
    """A user of a cluster that gives up a node after seconds."""
    cluster = clusters.with_options(options(SETTINGS))
    with one_user(lambda folder: YarnLab(folder, cluster)) as made:
        yield made


def starts(lab: YarnLab, session: int) -> list[int]:
    """How often each task was started in a session."""
    return [len(lab.wrote(f"{task}.{session}").splitlines()) for task in range(3)]


def wait_session(lab: YarnLab, job: str, session: int) -> dict[str, str]:
    """Waits until all programs of a session run, and that is known; answers where they are: node -> task."""
    until(lambda: starts(lab, session) == [1, 1, 1], f"session {session} runs")
    until(lambda: all(each["state"] == "running" for each in lab.tasks(job).values()), "that is known")
    where = {lab.node_of(each["host"]): task for task, each in lab.tasks(job).items()}
    assert len(where) == 3
    return where


def masters_node(lab: YarnLab, job: str) -> str:
    folders = lab.folders(job)
    return next(part for part in folders[min(folders)].parts if part.startswith("nm"))


@contextmanager
def cut_off(lab: YarnLab, node: str) -> Iterator[None]:
    lab.cluster.kill(node, signal.SIGSTOP)
    try:
        yield
    finally:
        lab.cluster.kill(node, signal.SIGCONT)


def wait_lost(lab: YarnLab, node: str) -> None:
    """Waits until the ResourceManager has given up a node."""

    def given_up() -> bool:
        found = json.loads(send_request(lab.page("rm"), "GET", "/ws/v1/cluster/nodes?states=LOST")).get("nodes") or {}
        return any(each["id"] == lab.cluster.state.address(f"{node}.rpc") for each in found.get("node", []))

    until(given_up, f"{node} is lost")


def wait_doubted(lab: YarnLab, job: str, task: str) -> None:
    """Wait until the program of a task counts as possibly running after its node was lost."""
    until(
        lambda: "its program may keep running there for another" in lab.tasks(job)[task]["note"],
        f"{task} is waited for",
    )


def test_nodes_are_cut_off(lab: YarnLab) -> None:
    """First one with a program, then the one with the application master, too: both run on, and are waited for.

    What may still run there is not started again; the older of two AMs notices that it is superseded, does nothing and
    exits.
    """
    job = lab.detach(lab.roles(PROGRAM, THREE))
    where = wait_session(lab, job, 1)
    away = next(node for node in where if node != masters_node(lab, job))
    task = where[away]
    program = lab.pid_of(job, task)
    with cut_off(lab, away):
        with frozen(lab.executor_of(job, task)):
            wait_lost(lab, away)
            wait_doubted(lab, job, task)
            assert process.is_alive(program)
            assert starts(lab, 2) == [0, 0, 0]
        until(lambda: not process.is_alive(program), "it has been ended")
    where = wait_session(lab, job, 2)
    status = lab.status(job)
    assert (status["restarts"]["charged"], status["restarts"]["free"]) == (0, 1)

    away = masters_node(lab, job)
    task, other = where[away], next(each for node, each in where.items() if node != away)
    master, executor, program = lab.master_of(job), lab.executor_of(job, task), lab.pid_of(job, task)
    with cut_off(lab, away):
        with ExitStack() as stack:
            stack.enter_context(frozen(executor))
            with frozen(master):
                (lab.out / f"over.{other.partition(':')[2]}.2").touch()  # its master will read of it late
                until(lambda: lab.application(job)["state"] != "RUNNING", "YARN has given it up")
                until(lambda: lab.application(job)["state"] == "RUNNING", "another one continues")
                assert lab.status(job)["attempt"] == 2
                wait_doubted(lab, job, task)
                until(lambda: lab.tasks(job)[other]["state"] != "running", "it has heard what the first has not")
            until(lambda: not process.is_alive(master), "the older one goes by itself")
            assert lab.status(job)["attempt"] == 2
            assert process.is_alive(program)
            assert starts(lab, 3) == [0, 0, 0]
        until(lambda: not process.is_alive(program), "it has been ended, too")
    wait_session(lab, job, 3)
    status = finish(lab, job)
    assert (status["state"], status["session"], status["attempt"]) == ("succeeded", 3, 2)
    assert (status["restarts"]["charged"], status["restarts"]["free"]) == (0, 2)
    assert lab.wrote("twice") == ""
    told = lab.events(job)
    assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
    assert [each["attempt"] for each in told] == sorted(each["attempt"] for each in told)
    assert lab.tony("replay", job).returncode == 0
