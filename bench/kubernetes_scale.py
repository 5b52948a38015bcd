"""Jobs of very many pods on a real API server, scheduler and controller manager, with simulated nodes and executors.

The application master is a pod of the small Kubernetes, as in production. All pods of tasks have a node without a
kubelet; `bench.fake_pods` fakes these nodes and the executors in one process. Pods have been created when a watch
reports them. Requests are all that service accounts of the namespace made, by the API server's own metrics; only the
application master has one. Its memory is the highest RSS of the process. The second job of each size has its
application master killed once half of its executors have attached: these come back, and the job
continues.

Everything shares this machine: the scheduler of Kubernetes gives nodes to at most 50 pods a second by default, and API
server, etcd and the fake executors use most of the processors. Shares of them are in the notes.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.crowded import Watch
from bench.failing_jobs import NS, kill, until
from bench.fake_pods import LABEL, TASK, Milestone
from bench.harness import CannotRunError, Line, Result, Target, Unit, at_least, at_most
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, interpreter, tony
from bench.process_facts import status_of
from bench.small_kubernetes import SCHEDULER_TABLE, SmallKubernetes
from bench.submission import running
from tony.kube.resources import JOBS, NODES, PODS
from tony.linux import process

TITLE = "Very many pods on simulated nodes of a small Kubernetes"

_SIZES = (1_000, 5_000)
_QUICK_SIZES = (50,)
_PODS_OF_NODE = 500
_FAKE_NODE = "fake-node"
_AM = "tony.am.container_main"
_JOB = f"""\
name = "bench"
command = "true"
{SCHEDULER_TABLE}
gang = "none"
[roles.worker]
instances = {{tasks}}
memory = "256m"
[roles.worker.kubernetes]
node_selector = {{{{ {_FAKE_NODE} = "true" }}}}
tolerations = ["*"]
"""

_DAEMONS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller")
#: Line of the API server's metrics: requests of service accounts.
_REQUESTS = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="service-accounts",.*\} (\S+)$', re.MULTILINE
)


def measure(quick: bool) -> Result:
    """Each size twice: undisturbed, and with a dead application master."""
    lines: list[Line] = []
    notes: list[str] = []
    with Workshop() as shop:
        for tasks in _QUICK_SIZES if quick else _SIZES:
            with _cluster(shop, tasks) as cluster:
                found, note = _run_undisturbed(shop, cluster, tasks)
            with _cluster(shop, tasks) as cluster:
                lines += [*found, *_run_with_dead_master(shop, cluster, tasks)]
            notes.append(note)
    return Result(lines=tuple(lines), notes=tuple(notes))


def _run_undisturbed(shop: Workshop, cluster: SmallKubernetes, tasks: int) -> tuple[list[Line], str]:
    requests, cpu, began = _count_requests(cluster), _read_cpu(cluster), time.monotonic()
    with _job(shop, cluster, tasks) as job:
        created, granted, started = job.wait_for("created", "granted", "started")
        used = {name: seconds - cpu.get(name, 0.0) for name, seconds in _read_cpu(cluster).items()}
        used |= {"application master": Watch(job.am).cpu_before, "executors": started.cpu}
        wall = time.monotonic() - began
        memory = _find_peak(job.am)
        left = job.end()
        requests = _count_requests(cluster) - requests
        remaining = len(cluster.client.list(PODS, labels={LABEL: job.id, **TASK}, metadata_only=True).items)
        running_pods = job.count_running()
    head = f"{tasks:,} pods: "
    lines = [
        _line(f"{head}created a second", tasks / (created.at - created.first), Unit.COUNT, at_least(45)),
        _line(f"{head}requests of the application master", requests, Unit.COUNT, at_most(2 * tasks + 50)),
        _line(f"{head}application master, highest RSS", memory, Unit.BYTES, at_most(150 * 10**6)),
        _line(f"{head}last pod has a node → all have started", started.at - granted.at, Unit.SECONDS, at_most(30)),
        _line(f"{head}first pod created → all have a node", granted.at - created.first, Unit.SECONDS),
        _line(f"{head}all programs exit → all executors released", left.at - left.first, Unit.SECONDS),
        _line(f"{head}more pods created than tasks", left.pods - tasks, Unit.COUNT, at_most(0)),
        _line(f"{head}running pods at the end, of {remaining:,}", running_pods, Unit.COUNT, at_most(0)),
    ]
    shares = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in used.items())
    return lines, f"{tasks:,} pods, submission to start, {wall:.0f} s: CPU of {shares}"


def _run_with_dead_master(shop: Workshop, cluster: SmallKubernetes, tasks: int) -> list[Line]:
    with _job(shop, cluster, tasks) as job:
        job.wait_for("half")
        killed = kill(job.am)
        back, started = job.wait_for("back", "started")
        left = job.end()
    head = f"{tasks:,} pods, application master killed at half: "
    return [
        _line(f"{head}→ its executors are back", back.at - killed * NS, Unit.SECONDS, at_most(10)),
        _line(f"{head}→ all have started", started.at - killed * NS, Unit.SECONDS),
        _line(f"{head}more pods created than tasks", left.pods - tasks, Unit.COUNT, at_most(0)),
    ]


def _line(what: str, value: float, unit: Unit, target: Target | None = None) -> Line:
    return Line(what=what, unit=unit, value=value, target=target)


class _Job:
    """A job whose pods are fake.

    Attributes:
        am: process of its application master.
    """

    def __init__(self, cluster: SmallKubernetes, job_id: str, executors: subprocess.Popen[bytes]) -> None:
        self._cluster, self.id, self._executors = cluster, job_id, executors
        self._labels = {LABEL: job_id, **TASK}
        (self.am,) = until(lambda: running(_AM) or None, "the application master")

    def wait_for(self, *names: str) -> list[Milestone]:
        """Wait for milestones, in this order or any other."""
        found: dict[str, Milestone] = {}
        while not found.keys() >= {*names}:
            milestone = self._read()
            found[milestone.what] = milestone
        return [found[name] for name in names]

    def _read(self) -> Milestone:
        assert self._executors.stdout is not None
        if not select.select([self._executors.stdout], [], [], 2 * TIMEOUT_SECONDS)[0]:
            raise CannotRunError(f"job {self.id}: the pods are not ready within {2 * TIMEOUT_SECONDS:.0f} s")
        line = self._executors.stdout.readline()
        if not line.startswith(b"{"):
            raise CannotRunError(f"job {self.id}: the executors failed")
        return Milestone(**json.loads(line))

    def count_running(self) -> int:
        """Return how many pods have not ended."""
        found = self._cluster.client.list(PODS, labels=self._labels).items
        return sum(pod["status"].get("phase") not in ("Succeeded", "Failed") for pod in found)

    def end(self) -> Milestone:
        """Have all programs exit, and wait for the end of the job."""
        assert self._executors.stdin is not None
        self._executors.stdin.write(b"exit\n")
        (left,) = self.wait_for("left")
        until(self._find_end, "the end of the job", 2 * TIMEOUT_SECONDS)
        return left

    def _find_end(self) -> bool | None:
        time.sleep(0.5)
        conditions = (self._cluster.client.get(JOBS, self.id).get("status") or {}).get("conditions") or ()
        if any(each["type"] == "Failed" and each["status"] == "True" for each in conditions):
            raise CannotRunError(f"job {self.id} failed")
        return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions) or None


@contextlib.contextmanager
def _job(shop: Workshop, cluster: SmallKubernetes, tasks: int) -> Iterator[_Job]:
    """A job that was submitted."""
    path = shop.path / "job.toml"
    path.write_text(_JOB.format(tasks=tasks), encoding="utf-8")
    done = subprocess.run(tony("submit", "-d", "--json", str(path)), env=cluster.environ, capture_output=True)
    if done.returncode:
        raise CannotRunError(f"tony submit ended with {done.returncode}: {done.stderr.decode()}")
    job_id = Path(json.loads(done.stdout)["folder"]).name
    words = [interpreter(), "-m", "bench.fake_pods", str(cluster.places.daemons_kubeconfig), job_id, str(tasks)]
    executors = subprocess.Popen(
        cluster.enter_network(words), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=cluster.environ
    )
    try:
        yield _Job(cluster, job_id, executors)
    finally:
        executors.kill()
        executors.communicate()


@contextlib.contextmanager
def _cluster(shop: Workshop, tasks: int) -> Iterator[SmallKubernetes]:
    """A cluster of its own for each job, since its end takes less time than the deletion of the pods.

    To its simulated nodes only pods go that tolerate all taints: they have no kubelet, and so are never ready.
    """
    sizes = {"cpu": "100000", "memory": "100Ti", "pods": str(_PODS_OF_NODE)}
    with SmallKubernetes(shop) as cluster:
        for number in range(tasks // _PODS_OF_NODE + 1):
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"{_FAKE_NODE}-{number}", "labels": {_FAKE_NODE: "true"}},
                "spec": {"taints": [{"key": _FAKE_NODE, "effect": "NoSchedule"}]},
                "status": {"capacity": sizes, "allocatable": sizes},
            }
            cluster.client.create(NODES, body)
        yield cluster


def _count_requests(cluster: SmallKubernetes) -> float:
    """Return the number of requests that service accounts outside kube-system have made so far."""
    sock, headers = cluster.client.open_socket()
    with sock, sock.makefile("rb") as answer:
        lines = ["GET /metrics HTTP/1.0", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        sock.sendall("\r\n".join(lines).encode())
        return sum(map(float, _REQUESTS.findall(answer.read().decode())))


def _read_cpu(cluster: SmallKubernetes) -> Mapping[str, float]:
    """Return the processor time of the daemons so far, in seconds."""
    found = {process.name(pid): pid for pid in process.with_marker(cluster.places.marker)}
    return {name: Watch(pid).cpu_before for name, pid in found.items() if name.startswith(_DAEMONS)}


def _find_peak(pid: int) -> int:
    return int(status_of(pid).get("VmHWM", "0 kB").split()[0]) * 1024
