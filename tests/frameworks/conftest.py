"""Every task's environment as its executor would make it: for made-up addresses, and for real programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tony.executor.program.program_environment import build_common_environment
from tony.executor.program.program_environment import build_variables as companions
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.registry import home_of, load
from tony.linux.port_reservation import Reservation, reserve
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.setting_choices import DistributedMode, RoleKind

Environments = dict[TaskId, list[dict[str, str]]]  # one per process


@dataclass(frozen=True)
class Gang:
    """One job's tasks, all registered."""

    spec: JobSpec
    cluster: ClusterSpec

    @property
    def framework(self) -> Framework:
        return load(home_of(self.spec.framework))

    @property
    def shared(self) -> Json:
        """What the application master would send to all."""
        if self.spec.distributed_mode is DistributedMode.FCFS:
            return None
        return self.framework.build_shared(self.spec, self.cluster)

    def view(self, task: TaskId) -> TaskView:
        roles = self.spec.effective_roles
        return TaskView(
            job_id="job-1",
            task=task,
            session=self.cluster.session,
            attempt=1,
            try_=1,
            instances={name: role.instances for name, role in roles.items()},
            procs={name: role.procs_per_task for name, role in roles.items()},
            chief=self.spec.chief,
            num_tasks=self.spec.tracked_count,
            mode=self.spec.distributed_mode,
            address=self.cluster.roles[task.role][task.index],
        )

    def environments(self) -> Environments:
        """What the framework alone gives to each process of each task."""
        shared, framework = self.shared, self.framework
        return {
            task: [dict(variables) for variables in framework.environment(shared, self.view(task))]
            for task in self.spec.task_ids
            if task.role in self.cluster.roles
        }


def addresses_of(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """An address for every task, no two alike."""
    return {
        name: tuple(f"{name}-{index}.example:{20000 + index}" for index in range(role.instances))
        for name, role in spec.effective_roles.items()
    }


GangMaker = Callable[..., Gang]


@pytest.fixture
def make_gang() -> GangMaker:
    """Makes a Gang of a spec; the addresses are made up unless given."""

    def make(spec: JobSpec, roles: Mapping[str, tuple[str, ...]] | None = None) -> Gang:
        cluster = ClusterSpec(session=1, version=1, roles=addresses_of(spec) if roles is None else roles)
        return Gang(spec, cluster)

    return make


@dataclass
class Running:
    """One real process of a real task."""

    name: str  # worker:0, or worker:0/1 for the second process of a task
    waited_for: bool
    output: Path
    process: subprocess.Popen[bytes]


class RealGang:
    """Runs a program once for every process of a job, with the environment that an executor would give it.

    Every task's port is reserved as an executor reserves it, while its program binds it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reservations: list[Reservation] = []
        self.running: list[Running] = []

    def run(
        self, spec: JobSpec, program: str, *, python: str = sys.executable, limit: float = 240.0
    ) -> dict[str, list[str]]:
        """Answers the lines of every process that is waited for; the others are killed when these have ended."""
        gang = Gang(spec, ClusterSpec(session=1, version=1, roles=self._addresses(spec)))
        for task, processes in gang.environments().items():
            for number, variables in enumerate(processes):
                name = str(task) if len(processes) == 1 else f"{task}/{number}"
                tracked = spec.effective_roles[task.role].kind is RoleKind.TRACKED
                environment = {
                    **_surroundings(),
                    **build_common_environment(gang.view(task)),
                    **variables,
                    **spec.env_of(task.role),
                }
                environment |= companions(environment, None, hooks=False)
                self.running.append(self._start(name, tracked, [python, "-u", "-c", program], environment))
        self._wait(limit)
        return {one.name: one.output.read_text().splitlines() for one in self.running if one.waited_for}

    def _addresses(self, spec: JobSpec) -> dict[str, tuple[str, ...]]:
        found = {}
        for name, role in spec.effective_roles.items():
            reserved = [reserve() for _ in range(role.instances)]
            self.reservations += reserved
            found[name] = tuple(f"127.0.0.1:{one.port}" for one in reserved)
        return found

    def _start(self, name: str, waited_for: bool, command: list[str], environment: dict[str, str]) -> Running:
        output = self.folder / name.replace(":", "-").replace("/", ".")
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Running(name, waited_for, output, process)

    def _wait(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        pending = [one for one in self.running if one.waited_for]
        while pending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                pending[0].process.wait(timeout=0.2)
            failed = [one.name for one in self.running if one.process.poll()]
            if failed or time.monotonic() > deadline:
                what = f"{', '.join(failed)} failed" if failed else f"not over after {limit:.0f} s"
                pytest.fail(f"{what}\n{self._outputs()}")
            pending = [one for one in pending if one.process.poll() is None]

    def _outputs(self) -> str:
        return "\n".join(f"--- {one.name}\n{one.output.read_text(errors='replace')[-3000:]}" for one in self.running)

    def close(self) -> None:
        for one in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()
        for reservation in self.reservations:
            reservation.close()


def _surroundings() -> dict[str, str]:
    """What the machine gives: little, and nothing of the tests' own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture
def real_gang(tmp_path: Path) -> Iterator[RealGang]:
    gang = RealGang(tmp_path)
    yield gang
    gang.close()
