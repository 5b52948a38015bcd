"""One user of a real Kubernetes, in a namespace of their own, and what a test wants to ask of their jobs there."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.lab import CEILING, Lab, until
from tests.support.code_archives import give_archives
from tests.yarn.lab import SMALL, complete_memory
from tony.core.events import Registered
from tony.history.event_log import EventTail
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.resources import CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS, SECRETS, SERVICE_ACCOUNTS, ApiResource
from tony.linux.process import environment_of, name, with_marker
from tony.mini.kubernetes.cluster import KubernetesCluster
from tony.mini.kubernetes.layout import API_SERVER_IP, NODE_NAME
from tony.mini.kubernetes.software import PYTHON_IMAGE
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.job_store.job_objects import JOB_LABEL, MANAGED_LABELS, PART_LABEL
from tony.schedulers.kubernetes.access_rules import AM_RULES, POD_GROUP_RULES, build_account_objects
from tony.schedulers.kubernetes.launch_payload import POD_NAME
from tony.schedulers.kubernetes.manifests import AM_PART, TASK_PART
from tony.schedulers.kubernetes.settings import KubernetesSettings

RESOURCE_QUOTAS = ApiResource(plural="resourcequotas", kind="ResourceQuota")


class KubernetesLab(Lab):
    """One user, with a namespace of their own. `$OUT` of their programs is the folder `out`, in the cluster's folder.

    Pids in `status` are those of this machine, not of the pod. A role has SMALL memory unless it says otherwise.

    Attributes:
        cluster: where the jobs go.
        namespace: has the service account of AMs; it is deleted at the end.
        kubeconfig: the user's file.
        client: the administrator of the cluster, in that namespace.
    """

    scheduler = "kubernetes"
    stop_grace = "2s"

    def __init__(self, root: Path, cluster: KubernetesCluster, namespace: str = "") -> None:
        """Create the user, and their namespace unless they have one."""
        super().__init__(root)
        give_archives(Home(self.home))
        self.cluster = cluster
        self._owns_namespace = not namespace
        self.namespace = namespace or f"lab-{secrets.token_hex(4)}"
        # Of the machine's folders only those of the cluster can be written by pods.
        self._shared = cluster.places.path / "tests" / self.namespace
        self.out = self._shared / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self.out.chmod(0o777)
        self.kubeconfig = root / "kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(self.build_kubeconfig())
        self.env["KUBECONFIG"] = str(self.kubeconfig)
        self.client = ApiClient(load_cluster_access([self.kubeconfig]))
        if self._owns_namespace:
            self._create_namespace()
        self.write_site(self._shared)

    def write_site(self, *folders: Path) -> None:
        """Write the user's defaults: the image, and folders in all pods, which Pod Security would refuse."""
        site = Path(self.env["XDG_CONFIG_HOME"], "tony", "tony.toml")
        site.parent.mkdir(parents=True, exist_ok=True)
        text = _SITE.format(image=PYTHON_IMAGE)
        if folders:
            names = {f"lab-{number}": folder for number, folder in enumerate(folders)}
            volumes = [f'{{ name = "{name}", hostPath = {{ path = "{path}" }} }}' for name, path in names.items()]
            mounts = [f'{{ name = "{name}", mountPath = "{path}" }}' for name, path in names.items()]
            text += _VOLUMES.format(volumes=", ".join(volumes), mounts=", ".join(mounts))
        site.write_text(text)

    def use_packages(self) -> list[str]:
        """Use the claim `data` as well, which is in the cluster's own namespace."""
        packages = sysconfig.get_path("purelib")
        self.write_site(self._shared, Path(packages))
        self.env["KUBECONFIG"] = str(self.cluster.kubeconfig)
        kubernetes = {"image": PYTHON_IMAGE, "volumes": '{"/data" = "pvc:data"}'}
        sets = {f"scheduler.kubernetes.{name}": value for name, value in kubernetes.items()}
        sets["env.PYTHONPATH"] = packages
        return [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]

    def shared_folder(self, name: str) -> str:
        return f"/data/{self.namespace}/{name}"

    def shared_names(self, name: str) -> set[str]:
        return {path.name for path in (self.cluster.places.data / self.namespace / name).iterdir()}

    def enter_node(self) -> str:
        """Run the user's commands in the network of the only node; return its address, which pods reach."""
        (node,) = self.cluster.places.list_nodes()
        (kubelet,) = [pid for pid in with_marker(self.cluster.places.marker) if name(pid) == "kubelet"]
        self.prefix = ("nsenter", "--target", str(kubelet), "--net")
        config = json.loads(self.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{API_SERVER_IP}:443"
        self.kubeconfig.write_text(json.dumps(config))
        return node.ip

    def build_kubeconfig(self, user: Mapping[str, Any] | None = None) -> str:
        """Return a kubeconfig file whose namespace is the lab's.

        Args:
            user: credentials; the administrator's by default.
        """
        config = json.loads(self.cluster.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = self.namespace
        if user is not None:
            config["users"][0]["user"] = user
        return json.dumps(config)

    def _create_namespace(self) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}  # a volume of tests is a folder of the machine
        metadata = {"name": self.namespace, "labels": labels}
        self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for resource, body in build_account_objects(
            KubernetesSettings().service_account, (*AM_RULES, *POD_GROUP_RULES)
        ):
            self.client.create(resource, body)
        until(lambda: self.find(SERVICE_ACCOUNTS, "default"), "the namespace has its service account")

    def find(self, resource: ApiResource, name: str) -> Object | None:
        """Return an object; None if there is none of that name."""
        try:
            return self.client.get(resource, name)
        except KubeApiError as error:
            if not error.is_missing:
                raise
            return None

    def set_quota(self, limits: Mapping[str, str]) -> None:
        """Limit what pods of the namespace may have together: `{"limits.memory": "2000Mi"}`."""
        self.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "quota"}, "spec": {"hard": dict(limits)}})
        until(lambda: self.client.get(RESOURCE_QUOTAS, "quota").get("status", {}).get("hard"), "the quota is known")

    def add_resource(self, name: str, count: int) -> None:
        """Give the first node some of a resource that no other job requests."""
        amount = {name: str(count)}
        path = NODES.build_path("", NODE_NAME, "status")
        self.send("PATCH", path, {"status": {"capacity": amount, "allocatable": amount}})

    def complete(self, text: str) -> str:
        return complete_memory(text)

    def elsewhere(self, name: str) -> KubernetesLab:
        """The same user on another machine: an empty home, and a copy of the kubeconfig file."""
        root = self.root / name
        root.mkdir()
        return KubernetesLab(root, self.cluster, self.namespace)

    def send(self, method: str, path: str, body: Object) -> Object:
        """Send a request for which the client has no method; a PATCH is merged."""
        kind = "merge-patch+json" if method == "PATCH" else "json"
        return self.client._request(
            method, path, f"{method} {path}", body=body, headers={"Content-Type": f"application/{kind}"}
        )

    # --- questions ------------------------------------------------------------------------------------------------

    def status(self, job: str) -> dict[str, Any]:
        answer = super().status(job)
        running = [task for task in answer["tasks"] if task["executor_pid"]]
        if running:
            found, containers = PodProcesses(job), self._find_containers(job)
            for task in running:
                executor = found.executors.get(containers.get(task["task"], ""))
                task["executor_pid"] = executor
                task["pid"] = found.find_host_pid(executor, task["pid"]) if executor and task["pid"] else None
        return answer

    def _find_containers(self, job: str) -> dict[str, str]:
        """Return task -> the pod of its executor."""
        events = (entry.event for entry in EventTail(self.am_folder(job)).read_new())
        return {str(event.task): event.container for event in events if isinstance(event, Registered)}

    def am_folder(self, job: str) -> JobFolder:
        """A folder in the pod of the newest application master that writes events."""
        pods = self.cluster.places.list_nodes()[0].volumes / "pods"

        def find_newest() -> JobFolder | None:
            numbers: dict[int, Path] = {}
            with contextlib.suppress(FileNotFoundError):  # kubelet has just removed another one
                for path in pods.glob(f"*/volumes/kubernetes.io~empty-dir/work/tony-home-*/jobs/{job}"):
                    numbers[int(path.parents[1].name.rpartition("-")[2])] = path
            folders = [Home(path.parents[1]).job(job) for _, path in sorted(numbers.items(), reverse=True)]
            return next((each for each in folders if list(each.path.glob("events*"))), None)

        folder: JobFolder = until(find_newest, f"a master of {job} writes its log")
        return folder

    def list_pods(self, job: str, part: str = TASK_PART) -> dict[str, Object]:
        """Pod -> its object, of the tasks or of the AM."""
        found = self.client.list(PODS, labels={JOB_LABEL: job, PART_LABEL: part}).items
        return {each["metadata"]["name"]: each for each in found}

    def applications(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.client.list(JOBS).items}

    def find_pod(self, job: str, task: str) -> str:
        """The pod of a task."""
        return self._find_containers(job)[task]

    def delete_pod(self, name: str) -> None:
        """As `kubectl delete pod` does."""
        self.client.delete(PODS, name)

    def list_objects(self, job: str = "") -> list[str]:
        """Return what is in the namespace of a job, or of all of them but for shared files: `pods/NAME`, ..."""
        return [
            f"{resource.plural}/{each['metadata']['name']}"
            for resource in (JOBS, PODS, SECRETS, CONFIG_MAPS)
            for each in self.client.list(resource, labels={JOB_LABEL: job} if job else MANAGED_LABELS).items
            if JOB_LABEL in each["metadata"]["labels"]
        ]

    def is_released(self, job: str) -> bool:
        """Return True if the submission of a job was completed."""
        found = self.find(JOBS, job)
        return found is not None and not found["spec"].get("suspend")

    def find_outcome(self, job: str) -> str:
        """Return how the Job has ended for Kubernetes; empty if it has not."""
        conditions = (self.client.get(JOBS, job).get("status") or {}).get("conditions") or ()
        found = {each["type"] for each in conditions if each["status"] == "True"}
        return "succeeded" if "Complete" in found else "failed" if "Failed" in found else ""

    def wait_ended(self, job: str) -> str:
        """Wait until the Job has ended for Kubernetes, too; return how."""
        return str(until(lambda: self.find_outcome(job), f"Kubernetes has ended {job}"))

    def wait_attempt(self, job: str, attempt: int) -> None:
        """Wait until this AM attempt answers; a connection to the one that was killed may break."""

        def is_answering() -> bool:
            done = self.tony("status", job, "--json")
            return done.returncode == 0 and json.loads(done.stdout)["attempt"] == attempt

        until(is_answering, f"AM attempt {attempt} continues")

    def master_of(self, job: str) -> int:
        """The pid of the application master."""
        return int(until(lambda: max(PodProcesses(job).masters, default=0), f"{job} has an application master"))

    def seems_ended(self, job: str) -> bool:
        return True  # its Job ends a second or more after it

    def processes(self, job: str) -> list[int]:
        return with_marker(f"{POD_NAME}={job}-", f"TONY_TASK={job}/")

    def prove_clean(self) -> None:
        """Of jobs that have ended there is nothing: no process, no secret."""
        for job in self.jobs():
            if self.has_ended(job):
                self.wait_removed(job)
                assert not (self.home / "jobs" / job / "secret").exists()
                left = [name for name in self.list_objects(job) if name.startswith("secrets/")]
                assert left == [], left

    def close(self) -> None:
        """Ends whatever a failed test has left, on the cluster as well."""
        super().close()
        with contextlib.closing(self.client):
            if self._owns_namespace:
                self.client.delete(NAMESPACES, self.namespace)


class PodProcesses:
    """Processes of a job's pods, which have pid namespaces of their own, as this machine sees them.

    Attributes:
        executors: pod of a task -> pid of its first process.
        masters: pids of the first processes of the AM's pods.
    """

    def __init__(self, job: str) -> None:
        first = {pid: _find_pod(pid) for pid in with_marker(f"{POD_NAME}={job}-") if _list_pids(pid)[-1:] == [1]}
        self.masters = [pid for pid, pod in first.items() if b"TONY_AM_ADDRESS=" not in environment_of(pid)]
        self.executors = {pod: pid for pid, pod in first.items() if pid not in self.masters}

    def find_host_pid(self, executor: int, pid: int) -> int | None:
        """Return this machine's pid of a process next to an executor; None if it has exited.

        Args:
            pid: in the namespace of the pod.
        """
        namespace = _find_namespace(executor)
        return next((each for each in _list_namespace(namespace) if _list_pids(each)[-1:] == [pid]), None)


def _find_pod(pid: int) -> str:
    variables = dict(entry.partition(b"=")[::2] for entry in environment_of(pid).split(b"\0"))
    return variables.get(POD_NAME.encode(), b"").decode()


def _list_pids(pid: int) -> Sequence[int]:
    """Return the pids of a process in each namespace, its own one last; none if it has exited."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(each) for each in line.split()[1:]]
    return []


def _find_namespace(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def _list_namespace(namespace: str) -> Iterator[int]:
    for entry in os.listdir("/proc") if namespace else ():
        if entry.isdigit() and _find_namespace(int(entry)) == namespace:
            yield int(entry)


_SITE = """\
[scheduler.kubernetes]
image = "{image}"
pull_policy = "Never"
"""
#: All pods have folders of this machine, at the same paths.
_VOLUMES = """\
[scheduler.kubernetes.template.spec]
volumes = [{volumes}]
[[scheduler.kubernetes.template.spec.containers]]
name = "tony"
volumeMounts = [{mounts}]
"""

__all__ = ["AM_PART", "CEILING", "SMALL", "TASK_PART", "KubernetesLab", "PodProcesses"]
