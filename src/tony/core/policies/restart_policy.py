"""Whether what has failed starts again: the gang as the next session, or one task alone as its next try.

Budgets mean one thing everywhere: `max_restarts` of the job, and of the role whose task has failed, count restarts that
the job's own failures have caused. What is nobody's fault of the job's is not charged, but does not go on for ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tony.core.state import Restart, State, Task
from tony.dataclass import dataclass
from tony.model.ids import TaskId
from tony.model.job_report import Failure, FailureClass
from tony.model.states import RestartScope
from tony.units import format_duration

#: Somebody else took a reserved port: not the job's fault, so not charged, but not for ever either.
PORT_RESTARTS = 3
#: In a row: containers in which our executor or the program cannot be started at all are hardly bad luck after that.
LAUNCH_RESTARTS = 2
#: In a row: nothing else is tried for ever without being charged.
FREE_RESTARTS = 10
#: Seconds after which a gang has run, whatever then befalls it: the next misfortune is the first one.
LONG_ENOUGH = 60.0
#: Seconds; no back-off is longer.
LONGEST_BACKOFF = 60.0

#: Causes whose containers never came to start the program.
_NEVER_RAN = frozenset({"launch", "limit", "registration-timeout"})
#: Causes that are a program's own end.
_ITS_OWN_END = frozenset({"program", "memory", "launch"})


@dataclass(frozen=True, slots=True)
class Decision:
    """Restart after `delay` seconds, or not.

    Attributes:
        charged: against `max_restarts` of job and role.
        early: the program ended before `min_uptime`.
    """

    restart: bool
    reason: str
    delay: float = 0.0
    charged: bool = True
    early: bool = False


def decide(state: State, failure: Failure, now: float, alone: Task | None = None) -> Decision:
    """Decides after a failure.

    Args:
        alone: the task that would start again by itself; None: the whole gang would.
    """
    free = _free_restart(state, failure, now, alone)
    if free:
        return free
    task = state.tasks[TaskId.parse(failure.task)] if failure.task else None
    fatal = never(state, failure)
    if fatal:
        return Decision(False, fatal)
    early = task is not None and _is_early(state, failure, task)
    if early and task and _early_before(state, task):
        limit = format_duration(state.spec.min_uptime or 0)
        return Decision(False, f"it ended before it had run for {limit} (min_uptime) twice in a row: no third time")
    return _by_budget(state, now, task, alone, early=early)


# --- not charged ------------------------------------------------------------------------------------------------------


def _free_restart(state: State, failure: Failure, now: float, alone: Task | None) -> Decision | None:
    """The decision, if the failure is no fault of the job's."""
    if failure.cause == "port-collision" and state.restarts_for_ports < PORT_RESTARTS:
        done = state.restarts_for_ports + 1
        return Decision(True, f"not charged: a reserved port was taken ({done} of {PORT_RESTARTS})", charged=False)
    if not failure.blameless:
        return None
    done = consecutive_restarts(state, now, alone)
    if failure.task and not alone:  # what one task alone was not granted any more, the gang is not either
        done = max(done, consecutive_restarts(state, now, state.tasks[TaskId.parse(failure.task)]))
    if failure.cause in _NEVER_RAN and done >= LAUNCH_RESTARTS:
        return None
    if done >= FREE_RESTARTS:
        ran = format_duration(LONG_ENOUGH)
        said = f"{FREE_RESTARTS} restarts in a row were no fault of the job's, and nothing ever ran for {ran}"
        return Decision(False, said)
    times = f", {done + 1} times in a row" if done else ""
    said = f"not charged: {_whose(failure)}{times}"
    return Decision(True, said, backoff(state.spec.backoff, done, _seed(state, alone)), charged=False)


def _whose(failure: Failure) -> str:
    return "its program was never started" if failure.cause in _NEVER_RAN else "no fault of the job's"


def consecutive_restarts(state: State, now: float, alone: Task | None) -> int:
    """Restarts since anything ran for long that were not charged: of the gang, or of one task alone."""
    if alone:
        began, done = alone.began if alone.session == state.session else None, alone.free
    else:
        began, done = state.began, state.free
    return 0 if began is not None and now - began >= LONG_ENOUGH else done


# --- never worth it ---------------------------------------------------------------------------------------------------


def never(state: State, failure: Failure) -> str:
    """Why nothing is started again although there may be room; empty if it may be."""
    if failure.task is None or failure.exit_code is None:
        return ""
    role = TaskId.parse(failure.task).role
    codes = state.spec.no_retry_on_of(role)
    if failure.exit_code not in codes:
        return ""
    key = "no_retry_on" if state.roles[role].spec.no_retry_on is None else f"roles.{role}.no_retry_on"
    return f"exit code {failure.exit_code} is never worth a retry ({key} = {list(codes)})"


def _is_early(state: State, failure: Failure, task: Task) -> bool:
    limit = state.spec.min_uptime
    if not limit or failure.failure_class is not FailureClass.USER or failure.cause not in _ITS_OWN_END:
        return False
    return task.session != state.session or failure.at - task.began < limit


def _early_before(state: State, task: Task) -> bool:
    """Whether the last time that this program ended was as early: in the last session, or the task's last try."""
    role = state.roles[task.id.role]
    return bool(task.early if role.spec.restart is RestartScope.TASK else role.early)


# --- budgets ----------------------------------------------------------------------------------------------------------


def _by_budget(state: State, now: float, task: Task | None, alone: Task | None, *, early: bool) -> Decision:
    counted = counting(state, now)
    window = state.spec.restart_window
    within = f" within {format_duration(window)}" if window else ""
    limit, used = state.spec.max_restarts, len(counted)
    if used >= limit:
        return Decision(False, _used_up(limit, within, "max_restarts"))
    reason = f"restart {used + 1} of {limit}{within}"
    name = task.id.role if task else ""
    own = state.roles[name].spec.max_restarts if task else None
    if own is not None:
        mine = sum(each.role == name for each in counted)
        if mine >= own:
            key = f"roles.{name}.max_restarts"
            return Decision(False, _used_up(own, f" of {name}{within}", key))
        reason += f", {mine + 1} of {own} for {name}"
    before = sum(each.alone == (alone.name if alone else "") for each in counted)
    delay = backoff(state.spec.backoff, before, _seed(state, alone))
    return Decision(True, reason, delay, early=early)


def _used_up(limit: int, which: str, key: str) -> str:
    if limit == 1:
        return f"the one restart{which} ({key}) is used up"
    return f"all {limit} restarts{which} ({key}) are used up" if limit else f"{key} = 0"


def counting(state: State, now: float) -> Sequence[Restart]:
    """The charged restarts that count now."""
    window = state.spec.restart_window
    return [each for each in state.restarts if window is None or each.at > now - window]


# --- back-off ---------------------------------------------------------------------------------------------------------


def _seed(state: State, alone: Task | None) -> str:
    return f"{state.job_id}/{alone.name}" if alone else state.job_id


def backoff(base: float, done: int, seed: str) -> float:
    """Seconds to wait before the next restart: none before the first, then `base` doubling up to a minute.

    A jitter of up to a quarter (more, but less at the longest) keeps jobs that failed together from coming back
    together. It is derived from the job's id, so that a replay computes the same.
    """
    if done == 0:
        return 0.0
    jitter = zlib.crc32(f"{seed}/{done}".encode()) / 2**32 / 4
    return min(base * 2.0 ** min(done - 1, 30) * (1 + jitter), LONGEST_BACKOFF * (1 - jitter))
