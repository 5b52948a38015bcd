"""One user of a real cluster, and everything a test wants to ask of their jobs there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.lab import CEILING, ENDED, Lab, command_of, one_user, until
from tests.mini_clusters import run_tool
from tests.support.code_archives import give_archives
from tony.errors import InfraError
from tony.mini.cluster import MiniCluster
from tony.mini.daemon_requests import send_request
from tony.model.state_directory import Home, JobFolder

#: Memory of a small task.
SMALL = "128m"
_APPLICATION_CLI = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"


class YarnLab(Lab):
    """One user. Their folder `out` is the same on every node. A role has SMALL memory unless it says otherwise.

    Attributes:
        cluster: where the jobs go.
    """

    scheduler = "yarn"
    stop_grace = "2s"

    def __init__(self, root: Path, cluster: MiniCluster) -> None:
        super().__init__(root)
        self.cluster = cluster
        self.out.mkdir()
        give_archives(Home(self.home))
        self.env["HADOOP_CONF_DIR"] = str(cluster.conf)

    def complete(self, text: str) -> str:
        return complete_memory(text)

    # --- commands -------------------------------------------------------------------------------------------------

    def elsewhere(self, name: str) -> YarnLab:
        """The same user on another machine: an empty home, and a copy of the cluster's configuration."""
        root = self.root / name
        root.mkdir()
        there = type(self)(root, self.cluster)
        conf = root / "conf"
        shutil.copytree(self.cluster.conf, conf)
        there.env["HADOOP_CONF_DIR"] = str(conf)
        return there

    def give_up(self, job: str) -> subprocess.CompletedProcess[str]:
        """Has YARN give up a job's first application master, as when it has missed it for long."""
        attempt = f"{job.replace('application', 'appattempt')}_000001"
        return run_tool(self.cluster, _APPLICATION_CLI, "applicationattempt", "-fail", attempt)

    # --- questions ------------------------------------------------------------------------------------------------

    def page(self, daemon: str) -> str:
        """The address of the pages of `rm` or `nn`."""
        return self.cluster.state.address(f"{daemon}.web")

    def application(self, job: str) -> dict[str, Any]:
        """What the ResourceManager says of a job."""
        answer = send_request(self.page("rm"), "GET", f"/ws/v1/cluster/apps/{job}")
        found: dict[str, Any] = json.loads(answer)["app"]
        return found

    def applications(self) -> set[str]:
        """The ids of all applications that the ResourceManager knows."""
        found = json.loads(send_request(self.page("rm"), "GET", "/ws/v1/cluster/apps"))["apps"]
        return {each["id"] for each in (found or {}).get("app", [])}

    def seems_ended(self, job: str) -> bool:
        with contextlib.suppress(InfraError):
            return str(self.application(job)["finalStatus"]) != "UNDEFINED"
        return True  # its daemons may be down

    def wait_application(self, job: str) -> dict[str, Any]:
        """Waits until YARN, too, thinks that the job has ended."""
        over = ("FINISHED", "FAILED", "KILLED")
        until(lambda: self.application(job)["state"] in over, f"YARN has ended {job}")
        return self.application(job)

    def wait_ended(self, job: str) -> str:
        return str(self.wait_application(job)["finalStatus"]).lower()

    def folders(self, job: str) -> dict[str, Path]:
        """Container -> its working folder, on every node; while the job lives."""
        places = self.cluster.places.path.glob(f"nm*/local/usercache/*/appcache/{job}/container_*")
        return {path.name: path for path in places}

    def logs(self, job: str) -> dict[str, Path]:
        """Container -> the folder with what it prints; until YARN has collected it, when the job has ended."""
        return {path.name: path for path in self.cluster.places.path.glob(f"nm*/logs/{job}/container_*")}

    def master_of(self, job: str) -> int:
        """The pid of the application master: the program itself, not the shell that YARN starts it with."""
        return next(pid for pid in self.processes(job) if b"tony.am.container_main" in command_of(pid).split(b"\0"))

    def am_folder(self, job: str) -> JobFolder:
        """A folder in the container of the newest application master that writes events."""

        def newest() -> JobFolder | None:
            found = sorted((name, path) for name, path in self.folders(job).items() if name.endswith("_000001"))
            folders = [Home(path / "tony-home").job(job) for _, path in found]
            return next((each for each in reversed(folders) if each.events(1).exists()), None)

        folder: JobFolder = until(newest, f"a master of {job} writes its log")
        return folder

    def processes(self, job: str) -> list[int]:
        """Every process on any node that has to do with a job, by environment or working folder."""
        return processes_of(job)

    def node_of(self, host: str) -> str:
        return f"nm{host.rpartition('.')[2]}"

    # --- the file system ------------------------------------------------------------------------------------------

    def shared_folder(self, name: str) -> str:
        return f"webhdfs://{self.cluster.state.address('nn.web')}{self._shared(name)}"

    def shared_names(self, name: str) -> set[str]:
        return set(self.listed(self._shared(name)))

    def _shared(self, name: str) -> str:
        return f"/user/{user()}/{self.root.name}/{name}"

    def listed(self, path: str) -> dict[str, int]:
        """Files and folders in a folder of HDFS, with their sizes; empty if there is none."""
        return {name: each["length"] for name, each in self._files(path).items()}

    def kept(self, path: str) -> dict[str, int]:
        """As `listed`, but for what was measured: that is there if the programs ran for long enough."""
        return {name: size for name, size in self.listed(path).items() if name != "metrics.db"}

    def stat(self, path: str) -> dict[str, tuple[int, int, int]]:
        """Files and folders in a folder of HDFS: which inode, how long, when changed."""
        return {
            name: (each["fileId"], each["length"], each["modificationTime"]) for name, each in self._files(path).items()
        }

    def _files(self, path: str) -> dict[str, dict[str, Any]]:
        with contextlib.suppress(Exception):
            answer = send_request(self.page("nn"), "GET", f"/webhdfs/v1{path}?op=LISTSTATUS&{_USER}")
            return {each["pathSuffix"]: each for each in json.loads(answer)["FileStatuses"]["FileStatus"]}
        return {}

    def prove_clean(self) -> None:
        """Of jobs that have ended there is nothing: no process, no secret, no half-written file."""
        for job in self.jobs():
            if self.has_ended(job):
                self.wait_application(job)
                self.wait_removed(job)
                assert not (self.home / "jobs" / job / "secret").exists()
                assert "access.json" not in self.listed(f"/user/{user()}/.tony/jobs/{job}")

    def close(self) -> None:
        """Ends whatever a failed test has left, on the cluster as well."""
        for job in self.jobs():
            with contextlib.suppress(Exception):
                if not self.has_ended(job):
                    self.tony("kill", job, "--now")
                    self.wait_application(job)
        super().close()


def processes_of(job: str) -> list[int]:
    """Every process on any node that has to do with a job, by environment or working folder."""
    number = job.removeprefix("application").encode() + b"_"  # `_1795275827392_0001_`, as in containers' ids
    marker = f"TONY_TASK={job}/".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        environment, folder = _seen(int(name))
        if marker in environment or number in environment or f"/{job}/" in folder:
            found.append(int(name))
    return sorted(found)


def user() -> str:
    import getpass

    return getpass.getuser()


_USER = f"user.name={user()}"


def complete_memory(text: str) -> str:
    """Adds SMALL memory to every role that does not ask for some."""
    parts = text.split("[roles.")
    done = [parts[0]]
    for part in parts[1:]:
        name, end, body = part.partition("]")
        own = body.split("\n[", 1)[0]
        done.append(f"{name}{end}" + ("" if "." in name or "memory" in own else f'\nmemory = "{SMALL}"') + body)
    return "[roles.".join(done)


def _seen(pid: int) -> tuple[bytes, str]:
    environment, folder = b"", ""
    with contextlib.suppress(OSError):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    with contextlib.suppress(OSError):
        folder = os.readlink(f"/proc/{pid}/cwd")
    return environment, folder


__all__ = ["CEILING", "ENDED", "SMALL", "YarnLab", "one_user", "processes_of", "until", "user"]
