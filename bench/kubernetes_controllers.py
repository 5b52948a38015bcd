"""Controllers of jobs on Kubernetes: processes next to the API server of a small one, with their webhooks."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.failing_jobs import until
from bench.harness import CannotRunError
from bench.kubernetes_baselines import find_module, find_program
from bench.measured_processes import cpu_of
from bench.small_kubernetes import RunningKubernetes

#: The runtime of all jobs of Trainer.
TRAINER_RUNTIME = "bench"
_JOBSET_PORT, _TRAINER_PORT = 9443, 9444
#: Where a controller looks for its certificate, below TMPDIR, if its configuration cannot say.
CERTIFICATES = "k8s-webhook-server/serving-certs"
_PAUSE_SECONDS = 0.1
Object = dict[str, Any]


def run_kubectl(cluster: RunningKubernetes, *words: str, check: bool = True) -> tuple[str, float]:
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


def start_jobset(cluster: RunningKubernetes, stack: ExitStack, trial: Object) -> None:
    """Start the controller of JobSet; return when it accepts a trial object.

    Args:
        stack: ends it.
    """
    config = {
        **_build_config("jobset.x-k8s.io"),
        "internalCertManagement": {"enable": False},
        "webhook": {"port": _JOBSET_PORT},
    }
    components = find_module("jobset") / "config/components"
    types = [components / "crd/bases/jobset.x-k8s.io_jobsets.yaml"]
    hooks = load_manifests(components / "webhook/manifests.yaml")
    folder = start_controller(cluster, stack, "jobset", config, types, hooks, _JOBSET_PORT)
    wait_for_webhook(cluster, trial, folder)


def start_trainer(cluster: RunningKubernetes, stack: ExitStack, trial: Object) -> None:
    """Start the controller of Trainer, which needs that of JobSet; return when it accepts a trial object.

    Args:
        stack: ends it.
    """
    config = {
        **_build_config("trainer.kubeflow.org"),
        "certManagement": {"enable": False},
        "health": {"healthProbeBindAddress": "0"},
        "webhook": {"port": _TRAINER_PORT, "host": "127.0.0.1"},
    }
    manifests = find_module("trainer") / "manifests/base"
    hooks = load_manifests(manifests / "webhook/manifests.yaml")
    types = sorted((manifests / "crds").glob("trainer*.yaml"))
    folder = start_controller(cluster, stack, "trainer", config, types, hooks, _TRAINER_PORT)
    container = {"name": "node", "image": "none"}  # a job says which
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    jobs = [{"name": "node", "template": job}]
    template = {"failurePolicy": {"maxRestarts": 3}, "network": {"enableDNSHostnames": False}, "replicatedJobs": jobs}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": TRAINER_RUNTIME, "labels": {"trainer.kubeflow.org/framework": "plainml"}},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": template}},
    }
    wait_for_webhook(cluster, runtime, folder)
    apply_objects(cluster, folder / "runtime.json", [runtime])
    wait_for_webhook(cluster, trial, folder)


def _build_config(group: str) -> Object:
    """Return what the configurations of controllers have in common."""
    settings = {"leaderElection": {"leaderElect": False}, "metrics": {"bindAddress": "0"}}
    return {"apiVersion": f"config.{group}/v1alpha1", "kind": "Configuration", **settings}


def start_controller(
    cluster: RunningKubernetes,
    stack: ExitStack,
    name: str,
    config: Mapping[str, Any],
    types: Sequence[Path],
    hooks: Sequence[Object],
    port: int,
    prefix: Sequence[str] = (),
) -> Path:
    """Start a controller, with a certificate in `CERTIFICATES` of its folder; return that folder.

    Args:
        types: manifests of its custom resources.
        hooks: its webhooks.
        port: of these.
        prefix: what stands before its command.
    """
    folder = cluster.places.path / name
    authority = _create_certificate(folder / CERTIFICATES)
    (folder / "config.json").write_text(json.dumps(config))
    apply_objects(cluster, folder / "types.json", [each for path in types for each in load_manifests(path)])
    wait = ("wait", "--for=condition=Established", "customresourcedefinitions", "--all")
    until(lambda: "condition met" in run_kubectl(cluster, *wait, check=False)[0] or None, "custom resources")
    stack.enter_context(_controller(cluster, name, folder, prefix))
    apply_objects(cluster, folder / "webhooks.json", [_direct(each, port, authority) for each in hooks])
    return folder


def load_manifests(path: Path) -> list[Object]:
    """Return the objects in a file of YAML documents."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def apply_objects(cluster: RunningKubernetes, draft: Path, objects: Sequence[Object]) -> None:
    """Create or change objects.

    Args:
        draft: a file that is written for that.
    """
    draft.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    run_kubectl(cluster, "apply", "--server-side", "-f", str(draft))


def _direct(hooks: Object, port: int, authority: str) -> Object:
    """Return webhooks that call a process next to the API server, in place of a Service."""
    for hook in hooks["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    return hooks


@contextmanager
def _controller(cluster: RunningKubernetes, name: str, folder: Path, prefix: Sequence[str]) -> Iterator[None]:
    """A controller that runs as the administrator, in the network of the API server.

    Args:
        folder: has its configuration, and what else it keeps by the variable TMPDIR.
        prefix: what stands before its command.
    """
    program = find_program(name)
    environ = {**cluster.environ, "KUBECONFIG": str(cluster.places.daemons_kubeconfig), "TMPDIR": str(folder)}
    command = cluster.enter_network([*prefix, str(program), f"--config={folder}/config.json"])
    with cluster.places.find_log(name).open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def wait_for_webhook(cluster: RunningKubernetes, trial: Object, folder: Path) -> None:
    """Wait until an object would be accepted."""
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
