"""Jobs of four programs as users of Kubernetes have them without tony."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.failing_jobs import NS
from bench.harness import CPU, CannotRunError, Figures
from bench.kubernetes_baselines import JOBSET_VERSION, TRAINER_VERSION, find_program
from bench.kubernetes_controllers import TRAINER_RUNTIME, Object, run_kubectl, start_jobset, start_trainer
from bench.small_kubernetes import SmallKubernetes
from tony.mini.kubernetes.software import PYTHON_IMAGE

TASKS = 4
_TIMEOUT_SECONDS = 60.0
#: Between two tries of `kubectl logs`: pods that have not started are an error.
_PAUSE_SECONDS = 0.1
_MEMORY = "256Mi"
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"


@dataclass(frozen=True, slots=True)
class KubectlJob:
    """A kind of job.

    Attributes:
        resource: as `kubectl delete` takes it.
        label: of its pods, whose value is the job's name.
        build: name and program -> the object.
        restarted: programs that begin again when one is killed.
    """

    title: str
    resource: str
    label: str
    build: Callable[[str, str], Object]
    restarted: int = TASKS

    @contextmanager
    def running(self, cluster: SmallKubernetes, program: str) -> Iterator[str]:
        """A job that was created; it is deleted."""
        name = f"bench-{os.urandom(4).hex()}"
        self._create(cluster, name, program)
        try:
            yield name
        finally:
            self._delete(cluster, name)

    def follow(self, cluster: SmallKubernetes, program: str) -> Figures:
        """Submit a job and follow it until each of its programs has printed its line; then delete it."""
        name = f"bench-{os.urandom(4).hex()}"
        begin = time.time_ns()
        cpu = self._create(cluster, name, program)
        accepted = time.time_ns()
        try:
            last_line, used = self._wait_for_lines(cluster, name)
            end = time.time_ns()
        finally:
            self._delete(cluster, name)
        figures = {"accepted": accepted, "line": last_line, "terminal": end}
        return {**{key: (at - begin) * NS for key, at in figures.items()}, CPU: cpu + used}

    def _wait_for_lines(self, cluster: SmallKubernetes, name: str) -> tuple[int, float]:
        """Return when the last program printed its line, in nanoseconds, and kubectl's CPU time in seconds."""
        words = ("logs", "--follow", "--prefix", "--max-log-requests=8", "-l", f"{self.label}={name}")
        deadline, cpu = time.monotonic() + _TIMEOUT_SECONDS, 0.0
        while True:
            printed, used = run_kubectl(cluster, *words, check=False)
            cpu += used
            moments = [int(found[1]) for found in re.finditer(r"\bat (\d{19})\b", printed)]
            if len(moments) == TASKS:
                return max(moments), cpu
            if time.monotonic() > deadline:
                raise CannotRunError(f"{self.title}: {printed[-2000:]}")
            time.sleep(_PAUSE_SECONDS)

    def _create(self, cluster: SmallKubernetes, name: str, program: str) -> float:
        """Create a job; return kubectl's CPU time in seconds."""
        manifest = cluster.places.path / f"{name}.json"
        manifest.write_text(json.dumps(self.build(name, program)))
        return run_kubectl(cluster, "apply", "-f", str(manifest))[1]

    def _delete(self, cluster: SmallKubernetes, name: str) -> None:
        """Delete a job, and wait until its pods are gone."""
        words = ("--cascade=foreground", "--wait", "--grace-period=1", "--ignore-not-found")
        run_kubectl(cluster, "delete", self.resource, name, *words)


def find_kinds(cluster: SmallKubernetes, stack: ExitStack) -> tuple[Sequence[KubectlJob], Sequence[str]]:
    """Return the kinds that have been built, with their controllers running; and why others are left out.

    Args:
        stack: ends the controllers.
    """
    if find_program("kubectl") is None:
        return (), ("nothing to compare with: python -m bench.kubernetes_baselines",)
    kinds = [KubectlJob("Indexed Job", "job", "job-name", _build_indexed_job, restarted=1)]
    notes = []
    job_set = KubectlJob(f"JobSet {JOBSET_VERSION}", "jobset", _JOBSET_LABEL, _build_job_set)
    # A TrainJob creates a JobSet of its own name.
    train_job = KubectlJob(f"Trainer {TRAINER_VERSION}", "trainjob", _JOBSET_LABEL, _build_train_job)
    for name, kind, start in (("jobset", job_set, start_jobset), ("trainer", train_job, start_trainer)):
        if find_program(name) is None:
            notes.append(f"{kind.title} is not built: python -m bench.kubernetes_baselines {name}")
        else:
            start(cluster, stack, kind.build("trial", "pass"))
            kinds.append(kind)
    return kinds, notes


# --- objects ------------------------------------------------------------------------------------------------------


def _build_pod_spec(program: str, *, restarts: str = "Never") -> Object:
    container = {
        "name": "main",
        "image": PYTHON_IMAGE,
        "command": ["python3", "-c", program],
        "resources": {"requests": {"cpu": "1", "memory": _MEMORY}, "limits": {"memory": _MEMORY}},
    }
    return {"restartPolicy": restarts, "containers": [container]}


def _build_job_spec(program: str) -> Object:
    counts = {"completions": TASKS, "parallelism": TASKS, "completionMode": "Indexed"}
    return {**counts, "backoffLimit": 0, "template": {"spec": _build_pod_spec(program)}}


def _build_indexed_job(name: str, program: str) -> Object:
    spec = {**_build_job_spec(program), "backoffLimit": 6}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _build_job_set(name: str, program: str) -> Object:
    jobs = [{"name": "worker", "replicas": 1, "template": {"spec": _build_job_spec(program)}}]
    spec = {"failurePolicy": {"maxRestarts": 3}, "network": {"enableDNSHostnames": False}, "replicatedJobs": jobs}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": spec}


def _build_train_job(name: str, program: str) -> Object:
    (container,) = _build_pod_spec(program)["containers"]
    trainer = {
        "image": container["image"],
        "command": container["command"],
        "numNodes": TASKS,
        "resourcesPerNode": container["resources"],
    }
    spec = {"runtimeRef": {"name": TRAINER_RUNTIME}, "trainer": trainer}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}
