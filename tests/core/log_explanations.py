"""What must have happened for a job to end as it did: the reason is read from the log, not from the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.core.state import State
from tony.core.steps.containers import MAX_LAUNCHES
from tony.model.failure import Failure
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitReason
from tony.model.setting_choices import RoleKind, StopOn
from tony.model.states import JobState, TaskState

#: Cause -> the exit codes that it may have.
EXIT_CODES: Mapping[str, tuple[int, ...]] = {
    "program": (1,),
    "memory": (1,),
    "launch": (1, 3),  # the command cannot be started; no container works
    "port-collision": (3,),
    "lost": (3,),
    "silent": (3,),
    "refused": (3,),
    "unsatisfiable": (1,),
    "killed": (4,),
    "allocation-timeout": (3,),
    "registration-timeout": (3,),
    "startup-timeout": (1,),
    "execution-timeout": (1,),
    "group-timeout": (1,),
    "job-timeout": (1,),
}

_REASONS: Mapping[str, tuple[ExitReason, ...]] = {
    "program": (ExitReason.EXITED,),
    "memory": (ExitReason.MEMORY,),
    "launch": (ExitReason.LAUNCH_FAILED,),
    "port-collision": (ExitReason.PORT_COLLISION,),
    "lost": (ExitReason.STOPPED, ExitReason.NOT_STARTED),
}


def unexplained(finished: act.Finish | None, log: Sequence[ev.Event], state: State) -> list[str]:
    """What is not as it should be about the end of a job; empty when all is well."""
    if finished is None:
        return ["the job has not ended"]
    failure = finished.failure
    if failure is None:
        return _success(state)
    wrong = []
    if finished.exit_code not in EXIT_CODES[failure.cause]:
        wrong.append(f"exit code {finished.exit_code} for {failure.cause}")
    if not _LOOKS.get(failure.cause, _limit)(log, failure, state.spec):
        wrong.append(f"nothing in the log is the cause {failure.cause} of {failure.task}")
    others = [f.reason for f in state.failures if (f.reason, f.at) != (failure.reason, failure.at)]
    if finished.state is JobState.FAILED and list(failure.others) != others:
        wrong.append(f"others named: {failure.others}, there were: {others}")
    return wrong


def _success(state: State) -> list[str]:
    spec = state.spec
    if spec.stop_on is StopOn.CHIEF and state.chief and state.tasks[state.chief].state is TaskState.SUCCEEDED:
        return []
    wrong = []
    for role in state.roles.values():
        ended = sum(task.state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.LOST) for task in role.tasks)
        if role.kind is RoleKind.TRACKED and ended < role.total:
            wrong.append(f"the job succeeded, and {role.name} had not ended by itself")
    return wrong


def _by_exit(log: Sequence[ev.Event], failure: Failure) -> bool:
    return any(
        isinstance(e, ev.Exited)
        and e.task == failure.task
        and e.session == failure.session
        and e.status.reason in _REASONS[failure.cause]
        and (e.status.code, e.status.signal) == (failure.exit_code, failure.signal)
        for e in log
    )


def _containers(log: Sequence[ev.Event]) -> list[str]:
    ends = (ev.ContainerEnded, ev.ActionFailed)
    return [str(e.container) for e in log if isinstance(e, ends)]


def _of_program(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return _by_exit(log, failure)


def _of_launch(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    silent = sum(isinstance(e, ev.Silent) and e.task == failure.task for e in log)
    return _by_exit(log, failure) or len(set(_containers(log))) + silent >= MAX_LAUNCHES


def _of_loss(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return _by_exit(log, failure) or bool(_containers(log))


def _of_silence(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return any(isinstance(e, ev.Silent) and e.task == failure.task for e in log)


def _of_command(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return any(isinstance(e, ev.KillRequested | ev.RestartRequested) for e in log)


def _of_refusal(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return any(isinstance(e, ev.Unsatisfiable) for e in log)


def _of_order(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    return any(role.after for role in spec.roles.values())


def _limit(log: Sequence[ev.Event], failure: Failure, spec: JobSpec) -> bool:
    kind = failure.cause.removesuffix("-timeout")
    who = {"allocation": "", "job": "", "group": f":{failure.task.role if failure.task else ''}"}
    return ev.DeadlinePassed(deadline=Deadline.parse(kind + who.get(kind, f":{failure.task}"))) in log


_LOOKS: Mapping[str, Callable[[Sequence[ev.Event], Failure, JobSpec], bool]] = {
    "program": _of_program,
    "memory": _of_program,
    "port-collision": _of_program,
    "launch": _of_launch,
    "lost": _of_loss,
    "silent": _of_silence,
    "killed": _of_command,
    "refused": _of_refusal,
    "unsatisfiable": _of_order,
}
