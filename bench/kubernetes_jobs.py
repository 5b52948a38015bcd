"""Jobs of four programs as users of Kubernetes have them without tony, and the controllers that some of them need."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.failing_jobs import NS, until
from bench.harness import CPU, CannotRunError, Figures
from bench.kubernetes_baselines import JOBSET_VERSION, find_module, find_program
from bench.measured_processes import cpu_of
from bench.small_kubernetes import SmallKubernetes
from tony.mini.kubernetes.software import PYTHON_IMAGE

TASKS = 4
#: Between two tries of `kubectl logs`: pods that have not started are an error.
_TIMEOUT_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_MEMORY = "256Mi"
Object = dict[str, Any]


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


def run_kubectl(cluster: SmallKubernetes, *words: str, check: bool = True) -> tuple[str, float]:
    """Return what `kubectl` prints, and its CPU time in seconds.

    Raises:
        CannotRunError: it failed, and `check` is set.
    """
    kubectl = find_program("kubectl")
    assert kubectl is not None
    with subprocess.Popen(
        [str(kubectl), *words], env=cluster.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        printed = program.stdout.read()
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    if check and program.returncode:
        raise CannotRunError(f"kubectl {' '.join(words)}: {printed[-2000:]}")
    return printed, cpu_of(usage)


def find_kinds(cluster: SmallKubernetes, stack: ExitStack) -> tuple[Sequence[KubectlJob], Sequence[str]]:
    """Return the kinds that have been built, with their controllers running; and why others are left out.

    Args:
        stack: ends the controllers.
    """
    if find_program("kubectl") is None:
        return (), ("nothing to compare with: python -m bench.kubernetes_baselines",)
    kinds = [KubectlJob("Indexed Job", "job", "job-name", _build_indexed_job, restarted=1)]
    notes = []
    kind = KubectlJob(f"JobSet {JOBSET_VERSION}", "jobset", "jobset.sigs.k8s.io/jobset-name", _build_job_set)
    if find_program("jobset") is None:
        notes.append(f"{kind.title} is not built: python -m bench.kubernetes_baselines jobset")
    else:
        _start_jobset(cluster, stack)
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


# --- controllers --------------------------------------------------------------------------------------------------


def _start_jobset(cluster: SmallKubernetes, stack: ExitStack) -> None:
    module = find_module("jobset")
    folder = cluster.places.path / "jobset"
    certificates, authority = folder / "certificates", _create_certificate(folder / "certificates")
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": 9443, "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    _apply(cluster, folder / "crd.json", _load(module / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"))
    stack.enter_context(_controller(cluster, "jobset", f"--config={folder}/config.json"))
    hooks = _load(module / "config/components/webhook/manifests.yaml")
    _apply(cluster, folder / "webhooks.json", [_direct(each, 9443, authority) for each in hooks])
    _wait_for_webhook(cluster, _build_job_set("trial", "pass"), folder)


def _load(path: Path) -> list[Object]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def _apply(cluster: SmallKubernetes, draft: Path, objects: Sequence[Object]) -> None:
    draft.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    run_kubectl(cluster, "apply", "--server-side", "-f", str(draft))


def _direct(hooks: Object, port: int, authority: str) -> Object:
    """Return webhooks that call a process next to the API server, in place of a Service."""
    for hook in hooks["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    return hooks


@contextmanager
def _controller(cluster: SmallKubernetes, name: str, *words: str) -> Iterator[None]:
    """A controller that runs as the administrator, in the network of the API server."""
    program = find_program(name)
    environ = {**cluster.environ, "KUBECONFIG": str(cluster.places.daemons_kubeconfig)}
    with cluster.places.find_log(name).open("wb") as log:
        process = subprocess.Popen(
            cluster.enter_network([str(program), *words]), env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for_webhook(cluster: SmallKubernetes, trial: Object, folder: Path) -> None:
    path = folder / "trial.json"
    path.write_text(json.dumps(trial))
    kubectl = str(find_program("kubectl"))
    command = [kubectl, "apply", "--dry-run=server", "-f", str(path)]

    def try_once() -> bool | None:
        time.sleep(_PAUSE_SECONDS)
        return True if subprocess.run(command, env=cluster.environ, capture_output=True).returncode == 0 else None

    until(try_once, "the webhook of a controller", 60.0)


def _create_certificate(folder: Path) -> str:
    """Write a key and its certificate for 127.0.0.1; return the certificate as the API takes it, in base64."""
    import base64

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(key.private_bytes(*form))
    text = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "tls.crt").write_bytes(text)
    return base64.b64encode(text).decode()
