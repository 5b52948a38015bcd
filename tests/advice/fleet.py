"""A synthetic fleet: runs of jobs made at random, some with waste that was planted, most without any.

The event logs come from the simulated cluster, so that what is read of them is what real jobs would have left. What was
measured follows from how a `Plan` says that its tasks behave, with noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.history.simulated_logs import entries
from tests.support.simulation import Simulation
from tony.advice.facts import Facts, Run
from tony.advice.facts_builder import run_of
from tony.core import actions as act
from tony.core import events as ev
from tony.history.event_log import FORMAT, VERSION, Header, LogEntry, LogWriter, settings_digest
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Peak
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.model.codec import to_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.job_spec import GIB, MIB, JobSpec, Resources, Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.progress import CheckpointRecord, Progress
from tony.model.setting_choices import RoleKind
from tony.model.staged_files import StagedJob
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import RECORD_VERSION, JobRecord

#: Buckets of a series of memory over a run.
BUCKETS = 32
START = 1_700_000_000.0


@dataclass(frozen=True, kw_only=True)
class Use:
    """How the tasks of a role behave. Numbers vary by `noise` from task to task and from run to run.

    Attributes:
        memory: bytes resident at the peak; cache: bytes more that the kernel counts.
        cpu, cpu_peak: cores.
        devices: mean use of each of a task's devices; one of 0 is never touched unless `opened` says so.
        slow: index of a task -> how many times slower it is.
        early: index of a task -> share of the run after which its program has ended.
        grows: its memory grows to the end.
    """

    memory: float
    cpu: float
    cpu_peak: float = 0.0
    cache: float = 0.0
    devices: tuple[float, ...] = ()
    opened: bool = False
    throttled: float = 0.0
    network: float = 1e6
    waits: float | None = None
    slow: Mapping[int, float] = field(default_factory=dict)
    early: Mapping[int, float] = field(default_factory=dict)
    grows: bool = False
    noise: float = 0.03
    measured: bool = True


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the runs of a job go.

    Attributes:
        duration: seconds for which the programs run; set_up: for which files are brought.
        step: seconds; None: no steps are told.
        save_every, save_cost: seconds; None: no checkpoints are told.
        fails: seconds after the start of a session at which worker 0 fails, session by session.
        ends: how the job ends.
    """

    spec: JobSpec
    uses: Mapping[str, Use]
    duration: float = 3600.0
    set_up: float = 20.0
    step: float | None = 1.0
    save_every: float | None = None
    save_cost: float = 0.0
    save_steps: int | None = None
    fails: tuple[float, ...] = ()
    out_of_memory: bool = False
    ends: JobState = JobState.SUCCEEDED
    runs: int = 4


@dataclass
class SimulatedRun:
    """One run as its files would tell it."""

    record: JobRecord
    entries: list[LogEntry]
    measured: Invented
    report: JobReport


class Cluster(Simulation):
    """One whose application master writes verdicts down, as the real one does."""

    def _perform(self, action: act.Action) -> None:
        super()._perform(action)
        if isinstance(action, act.ReportFailure):
            failure = action.failure
            self._send(
                ev.FailureClassified(
                    task=failure.task, failure=failure.reason, decision=action.decision, reason=action.reason
                )
            )


class Invented:
    """What was measured, without a file."""

    def __init__(self) -> None:
        self.used: dict[str, dict[str, Peak]] = {}
        self.curves: dict[str, list[float]] = {}
        self.told: list[Progress] = []
        self.saved: list[CheckpointRecord] = []
        self.known_until: float | None = None

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        return {task: found for task, found in self.used.items() if role in (None, task.rpartition(":")[0])}

    def read_role_series(
        self, role: str, name: str, since: float | None = None, until: float | None = None, most: int = 500
    ) -> RolePoints:
        return RolePoints(role=role, series=name, every=1.0, most=tuple(self.curves.get(role, ()))[:most])

    def progress(self, task: str | None = None) -> Sequence[Progress]:
        return [each for each in self.told if task in (None, each.task)]

    def checkpoints(self, task: str | None = None) -> Sequence[CheckpointRecord]:
        return [each for each in self.saved if task in (None, each.task)]


def facts(plan: Plan, chance: Random) -> Facts:
    """All runs of a job, newest first."""
    runs = [run(simulate(plan, chance, number)) for number in range(plan.runs)]
    return Facts(runs=tuple(reversed(runs)))


def run(simulated: SimulatedRun) -> Run:
    return run_of(simulated.record, simulated.entries, simulated.measured, simulated.report)


def simulate(plan: Plan, chance: Random, number: int = 0) -> SimulatedRun:
    length = plan.duration * chance.uniform(0.97, 1.03)
    cluster = Cluster(replace(plan.spec, backoff=0.0), job_id=f"job-{number}")
    cluster.begin()
    cluster.run(until=lambda: len(cluster.executors) == len(plan.spec.task_ids))
    cluster.now += plan.set_up * chance.uniform(0.97, 1.03)
    cluster.run()
    measured = Invented()
    peaks = _measure(plan, chance, length, measured)
    begun = cluster.now
    for session, lasted in enumerate(plan.fails, 1):
        began = cluster.now
        cluster.now += lasted
        _tell(plan, measured, session, began, cluster.now, first=session == 1)
        first = next(iter(plan.spec.effective_roles))
        reason = ExitReason.MEMORY if plan.out_of_memory else ExitReason.EXITED
        code = None if plan.out_of_memory else 1
        status = ExitStatus(reason=reason, code=code, duration=lasted, peak_memory=peaks.get(first))
        cluster.exit(TaskId(first, 0), status)
        cluster.run()
    if cluster.finished is None:
        _tell(plan, measured, len(plan.fails) + 1, cluster.now, cluster.now + length, first=not plan.fails)
        _finish(plan, cluster, length, peaks)
    state = cluster.app.state.job
    assert state is plan.ends, (state, plan.ends)
    record = _record(plan, number)
    return SimulatedRun(record, entries(cluster), measured, _report(record, state, cluster.now, begun))


def _finish(plan: Plan, cluster: Simulation, length: float, peaks: Mapping[str, int]) -> None:
    """The programs of all tasks that are waited for come to their end, the early ones first."""
    began = cluster.now
    ends = [
        (began + length * plan.uses[name].early.get(index, 1.0), TaskId(name, index))
        for name, role in plan.spec.effective_roles.items()
        if role.kind is RoleKind.TRACKED
        for index in range(role.instances)
    ]
    for at, task in sorted(ends, key=lambda end: (end[0], str(end[1]))):
        cluster.now = at
        status = ExitStatus(reason=ExitReason.EXITED, code=0, duration=at - began, peak_memory=peaks.get(task.role))
        cluster.exit(task, status)
        cluster.run()


def _measure(plan: Plan, chance: Random, length: float, measured: Invented) -> dict[str, int]:
    """Peaks and means of each task; answers role -> the kernel's peak."""
    peaks: dict[str, int] = {}
    for name, role in plan.spec.effective_roles.items():
        use = plan.uses[name]
        of_run = chance.uniform(1 - use.noise, 1 + use.noise)
        highest = 0.0
        for index in range(role.instances):
            task = f"{name}:{index}"
            memory = use.memory * of_run * chance.uniform(1 - use.noise, 1.0)
            highest = max(highest, memory)
            if use.measured:
                measured.used[task] = _series(use, chance, memory, length, plan)
        peaks[name] = int(highest + use.cache)
        if use.measured:
            rise = [highest * (0.3 + 0.7 * at / BUCKETS) for at in range(BUCKETS)]
            flat = [highest * min(1.0, 0.5 + 0.3 * at) for at in range(BUCKETS)]
            measured.curves[name] = rise if use.grows else flat
    return peaks


def _series(use: Use, chance: Random, memory: float, length: float, plan: Plan) -> dict[str, Peak]:
    def near(value: float) -> float:
        return value * chance.uniform(1 - use.noise, 1 + use.noise)

    cpu = near(use.cpu)
    found = {
        "rss": Peak(memory * 0.2, memory * 0.8, memory * 1.02),
        "pss": Peak(memory * 0.2, memory * 0.8, memory),
        "cpu": Peak(0.0, cpu, max(cpu * 1.1, near(use.cpu_peak))),
        "net-in": Peak(0.0, near(use.network), near(use.network) * 3),
        "net-out": Peak(0.0, near(use.network), near(use.network) * 3),
        "throttled": Peak(0.0, use.throttled, min(1.0, use.throttled * 1.5)),
    }
    for number, busy in enumerate(use.devices):
        held = 20 * GIB if busy else 500 * MIB if use.opened else 1 * MIB
        found[f"gpu{number}.util"] = Peak(0.0, near(busy), min(1.0, busy * 1.4))
        found[f"gpu{number}.memory"] = Peak(0.0, held * 0.9, float(held))
    if use.waits is not None and plan.step:
        found["user.data_wait"] = Peak(0.0, near(use.waits) * plan.step, plan.step)
    return found


def _tell(plan: Plan, measured: Invented, session: int, since: float, until: float, *, first: bool) -> None:
    """What the programs tell in one session: steps from its beginning on, checkpoints of the first task."""
    if plan.step:
        for name, role in plan.spec.effective_roles.items():
            if role.kind is not RoleKind.TRACKED:
                continue
            for index in range(role.instances):
                seconds = plan.step * plan.uses[name].slow.get(index, 1.0)
                end = since + (until - since) * plan.uses[name].early.get(index, 1.0)
                steps = (end - since - 1) / seconds
                measured.told.append(
                    Progress(f"{name}:{index}", session, 1, 1.0, since + 1, 1.0 + steps, end, behind=not first)
                )
    if plan.save_every:
        task = f"{next(iter(plan.spec.effective_roles))}:0"
        at, number = since + plan.save_every, 1
        while at + plan.save_cost < until:
            step = number * (plan.save_steps or round(plan.save_every / (plan.step or 1.0)))
            measured.saved.append(CheckpointRecord(task, session, 1, step, at, at + plan.save_cost))
            at, number = at + plan.save_every, number + 1


def _record(plan: Plan, number: int) -> JobRecord:
    return JobRecord(
        version=RECORD_VERSION,
        job_id=f"local-20260101-00000{number}-abcdef",
        user="ann",
        host="h",
        submitted=START + 86400.0 * number,
        tony_version="1",
        spec=plan.spec,
        staged=StagedJob(roles={}),
        framework_module="tony.frameworks.no_framework:NoFramework",
    )


def _report(record: JobRecord, state: JobState, until: float, begun: float) -> JobReport:
    return JobReport(
        job=record.job_id,
        name=record.spec.name,
        state=state,
        session=1,
        attempt=1,
        exit_code=0 if state is JobState.SUCCEEDED else 1,
        folder="",
        am=None,
        tasks=tuple(
            TaskReport(
                task=str(task), role=task.role, index=task.index, state=TaskState.SUCCEEDED, host=f"host{task.index}"
            )
            for task in record.spec.task_ids
        ),
        failure=None,
        framework=record.spec.framework,
        scheduler=record.spec.scheduler,
        user=record.user,
        submitted=record.submitted,
        ended=record.submitted + until,
    )


def spec(framework: str = "none", **roles: Role) -> JobSpec:
    return JobSpec(name="fleet", framework=framework, command="train", roles=roles)


def workers(count: int, memory: float, vcores: int, gpus: int = 0, **more: object) -> Role:
    resources = Resources(memory=int(memory), vcores=vcores, gpus=gpus)
    return Role(instances=count, resources=resources, **more)  # type: ignore[arg-type]


def write(home: Home, simulated: SimulatedRun) -> JobFolder:
    """A run as a folder of a home, with the files that its master would have left."""
    folder = home.job(simulated.record.job_id)
    folder.path.mkdir(parents=True)
    write_json(folder.job, to_plain(simulated.record))
    spec_digest = settings_digest(simulated.record.spec)
    header = Header(format=FORMAT, version=VERSION, job=folder.job_id, attempt=1, settings=spec_digest)
    log = LogWriter(folder.events(1), header)
    for entry in simulated.entries:
        event = entry.event
        if isinstance(event, ev.AttemptStarted):
            event = replace(event, wall=simulated.record.submitted, settings=spec_digest)
        log.append(event, entry.at, simulated.record.submitted + entry.at)
    log.close()
    metrics = MetricsWriter(folder.metrics, folder.job_id, 5.0)
    metrics.write(_parts(simulated.measured), simulated.measured.told, simulated.measured.saved)
    metrics.close()
    write_summary(folder, replace(simulated.report, folder=str(folder.path)))
    return folder


def _parts(measured: Invented) -> list[TaskMetricsUpdate]:
    """Least, mean and most of each series in one bucket; resident memory as its curve has it."""
    parts = []
    for task, used in measured.used.items():
        role = task.rpartition(":")[0]
        curve = measured.curves.get(role, [])
        series = {}
        for name, peak in used.items():
            rest = [float("nan")] * (3 * (len(curve) - 1))
            series[name] = [peak.least, peak.mean, peak.most, *rest]
            if name == "pss":
                top = max(curve)
                series[name] = [value / top * peak.most for value in curve for _ in range(3)]
        parts.append(TaskMetricsUpdate(task=task, role=role, width=5.0, anew=False, first=4, series=series))
    return parts
