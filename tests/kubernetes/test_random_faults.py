"""Many jobs on a real Kubernetes at once, while random processes, pods and daemons are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.lab import one_user
from tests.kubernetes.lab import AM_PART, PodProcesses
from tests.kubernetes.nodes import NodesLab, run_nodes
from tony.errors import InfraError, UserError
from tony.kube.errors import KubeError
from tony.kube.resources import PODS
from tony.linux.process import is_alive, name, with_marker
from tony.mini.kubernetes.cluster import KubernetesCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.e2e,
    pytest.mark.xdist_group("shared-kubernetes"),
    pytest.mark.timeout(7200),
]
JOB_COUNT = 200
#: Jobs at one time: their processes share the machine's CPUs.
PARALLEL_JOBS = 4
#: Of one job: its AM attempts are limited.
MAX_AM_KILLS = 4
#: Notes each start of a task in a session, and each start next to another one of the same task.
PROGRAM = """
import fcntl, os, time
out, task = os.environ["OUT"], os.environ["TASK_INDEX"]
lock = open(f"{out}/lock.{task}", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(f"{out}/doubled.{task}.{os.environ['SESSION_ID']}", "w").close()
with open(f"{out}/starts", "a") as file:
    file.write(f"{task}.{os.environ['SESSION_ID']}.{time.time():.3f}\\n")
time.sleep(6)
"""
HEAD = 'source = "."\nmax_restarts = 100\nbackoff = "100ms"\n'
ROLE = "[roles.worker]\ninstances = 2\n"


@dataclass
class Chaos:
    """What happens to the jobs, and what has happened.

    Attributes:
        running: ids of jobs that have not ended.
        am_kills: job -> how often its AM was chosen to be killed.
    """

    lab: NodesLab
    chance: random.Random
    running: set[str] = field(default_factory=set)
    am_kills: Counter[str] = field(default_factory=Counter)
    injected: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def inject(self) -> None:
        """Inject one random fault."""
        daemons: Sequence[tuple[Callable[[], str | None], int]] = (
            (self._kill_program, 6),
            (self._kill_executor, 4),
            (self._kill_am, 4),
            (self._delete_am_pod, 2),
            (self._delete_task_pod, 3),
            (lambda: self._restart("kubelet", "kubelet2"), 2),
            (lambda: self._restart("containerd", "containerd2"), 1),
            (lambda: self._restart("kube-apiserver"), 1),
            (lambda: self._restart("kube-controller-manager", "kube-scheduler"), 2),
            (lambda: self._restart("etcd"), 1),
        )
        (fault,) = self.chance.choices([each for each, _ in daemons], [weight for _, weight in daemons])
        with contextlib.suppress(KubeError):
            if text := fault():
                self.injected.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _choose(self) -> str:
        return self.chance.choice(sorted(self.running)) if self.running else "none"

    def _choose_for_am(self) -> str:
        """Choose a job whose AM may be killed once more."""
        job = self._choose()
        self.am_kills[job] += 1
        return job if self.am_kills[job] <= MAX_AM_KILLS else "none"

    def _kill(self, pids: Sequence[int], what: str) -> str | None:
        if not pids:
            return None
        pid = self.chance.choice(sorted(pids))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"kill {what} {pid}"

    def _kill_program(self) -> str | None:
        job = self._choose()
        return self._kill(with_marker(f"TONY_TASK={job}/"), f"program of {job}")

    def _kill_executor(self) -> str | None:
        job = self._choose()
        return self._kill([*PodProcesses(job).executors.values()], f"executor of {job}")

    def _kill_am(self) -> str | None:
        job = self._choose_for_am()
        return self._kill(PodProcesses(job).masters, f"AM of {job}")

    def _delete_am_pod(self) -> str | None:
        return self._delete(list(self.lab.list_pods(self._choose_for_am(), AM_PART)))

    def _delete_task_pod(self) -> str | None:
        return self._delete(list(self.lab.list_pods(self._choose())))

    def _delete(self, pods: Sequence[str]) -> str | None:
        if not pods:
            return None
        pod = self.chance.choice(pods)
        self.lab.client.delete(PODS, pod, grace_seconds=self.chance.choice((None, 1, 0)))
        return f"delete pod {pod}"

    def _restart(self, *daemons: str) -> str:
        daemon = self.chance.choice(daemons)
        self.lab.cluster.kill(daemon)
        time.sleep(self.chance.uniform(0, 6))
        with contextlib.suppress(InfraError, UserError):
            self.lab.cluster.restart(daemon)
        return f"restart {daemon}"

    # --- one job ------------------------------------------------------------------------------------------------------

    def run_job(self, number: int) -> None:
        """Run one job to its end, and note what is wrong with it."""
        out = self.lab.out / str(number)
        out.mkdir()
        out.chmod(0o777)
        text = f'command = "python3 x.py"\n{HEAD}\n{ROLE}'
        file = self.lab.job(text, {}, name=f"job-{number}.toml", OUT=str(out))
        job = ""
        for _ in range(10):
            done = self.lab.tony("submit", file, "--detach", *self.lab.options)
            if done.returncode == 0:
                job = done.stdout.strip()
                break
            self.injected.append(f"submit failed: {done.stderr.strip()[-300:]}")
            time.sleep(2)
        if not job:
            self.problems.append(f"job {number} could not be submitted: {done.stderr.strip()[-500:]}")
            return
        self.running.add(job)
        began = time.monotonic()
        while not (outcome := self._find_outcome(job)) and time.monotonic() - began < 600:
            time.sleep(1)
        self.running.discard(job)
        print(f"{time.strftime('%H:%M:%S')} {job} {outcome} after {time.monotonic() - began:.0f} s", flush=True)
        self.problems += [f"{job}: {each}" for each in self._check(job, outcome, out)]

    def _find_outcome(self, job: str) -> str:
        with contextlib.suppress(KubeError):
            return self.lab.find_outcome(job)
        return ""

    def _check(self, job: str, outcome: str, out: Path) -> Iterator[str]:
        if outcome != "succeeded":
            yield f"it is {outcome or 'running'}: {self.lab.tony('why', job).stdout[-1500:]}"
            return
        status = self.lab.status(job)
        if status["state"] != "succeeded":
            yield f"Kubernetes says succeeded, tony {status['state']}"
        starts = Counter((out / "starts").read_text().split())
        if len({each.split(".")[0] for each in starts}) != 2:
            yield f"not all tasks have run: {starts}"
        if doubled := [path.name for path in out.glob("doubled.*")]:
            yield f"programs ran next to each other: {doubled}"
        events = self.lab.events(job)
        if [each["seq"] for each in events] != list(range(1, len(events) + 1)):
            yield "its log has gaps"
        replayed = self.lab.tony("replay", job)
        if replayed.returncode:
            yield f"its log leads elsewhere: {replayed.stdout[-500:]}{replayed.stderr[-500:]}"
        left_at = time.monotonic() + 60
        while (left := self._list_left(job)) and time.monotonic() < left_at:
            time.sleep(1)
        if left:
            yield f"left: {left}"

    def _list_left(self, job: str) -> list[str]:
        processes = [f"{name(pid)} {pid}" for pid in self.lab.processes(job) if is_alive(pid)]
        try:
            pods = [
                pod
                for part in ("task", AM_PART)
                for pod, content in self.lab.list_pods(job, part).items()
                if content["status"].get("phase") not in ("Succeeded", "Failed")
            ]
        except KubeError:
            return processes
        return [*processes, *pods]


def run_chaos(lab: NodesLab, count: int, seed: int) -> Chaos:
    """Run jobs, some at a time, while faults are injected every few seconds."""
    lab.file("x.py", PROGRAM)
    chaos = Chaos(lab, random.Random(seed))
    has_ended = threading.Event()

    def disturb() -> None:
        while not has_ended.wait(chaos.chance.uniform(1, 5)):
            chaos.inject()

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
            for each in pool.map(chaos.run_job, range(count)):
                assert each is None
    finally:
        has_ended.set()
        disturbing.join()
    return chaos


@pytest.fixture
def cluster() -> Iterator[KubernetesCluster]:
    with run_nodes(2) as made:
        yield made


def test_jobs_survive_random_faults(cluster: KubernetesCluster) -> None:
    with one_user(lambda folder: NodesLab(folder, cluster)) as lab:
        chaos = run_chaos(lab, JOB_COUNT, seed=1)
    assert not chaos.problems, "\n".join([*chaos.problems, *chaos.injected])
