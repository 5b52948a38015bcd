"""Decides what restarts after a failure: the gang as the next session, or one task alone as its next task attempt.

`max_restarts` of the job, and of the role whose task failed, count restarts caused by the job's own failures. Others
do not count, but are limited, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tony.core.policies import memory_policy
from tony.core.state import Restart, State, Task
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.setting_choices import RestartScope
from tony.units import format_duration

#: Restarts because another process took a reserved port: not the job's fault, so they do not count, but are limited.
PORT_RESTARTS = 3
#: Consecutive restarts because the executor or the program could not be started: more is hardly a coincidence.
MAX_LAUNCH_RESTARTS = 2
#: Consecutive restarts that do not count, of any kind.
MAX_FREE_RESTARTS = 10
#: Seconds of running after which consecutive restarts are counted from zero again.
MIN_RUN_SECONDS = 60.0
#: Maximum back-off in seconds.
MAX_BACKOFF_SECONDS = 60.0

_FREE = "does not count against max_restarts"
#: Causes with which the program was never started.
_NEVER_RAN = frozenset({FailureCause.LAUNCH, FailureCause.LIMIT, FailureCause.REGISTRATION_TIMEOUT})
#: Causes that mean that the program itself ended.
_PROGRAM_ENDED = frozenset({FailureCause.PROGRAM, FailureCause.MEMORY, FailureCause.LAUNCH})


@dataclass(frozen=True, slots=True)
class Decision:
    """Restart after `delay` seconds, or not.

    Attributes:
        charged: counts against `max_restarts` of job and role.
        early: the program ended before `min_uptime`.
        considered: False where `max_restarts = 0` leaves nothing to decide.
    """

    restart: bool
    reason: str
    delay: float = 0.0
    charged: bool = True
    early: bool = False
    considered: bool = True


def decide(state: State, failure: Failure, now: float, alone: Task | None = None) -> Decision:
    """Return the decision for a failure.

    Args:
        alone: the task that would restart alone; None: the whole gang would.
    """
    free = _decide_free_restart(state, failure, now, alone)
    if free:
        return free
    task = state.tasks[failure.task] if failure.task else None
    fatal = explain_no_restart(state, failure)
    if fatal:
        return Decision(False, fatal, considered=state.spec.max_restarts > 0)
    growth = memory_policy.describe_growth(state, failure)
    if growth:  # the next attempt is not the same again, however early this one failed
        decision = _decide_by_budget(state, now, task, alone, early=False)
        return replace(decision, reason=f"{decision.reason}; {growth}") if decision.restart else decision
    if task and failure.fingerprint and task.retried == failure.fingerprint:
        step = f"{failure.step:,.10g}"
        return Decision(False, f"the same error twice in a row at the same step ({step}); no third attempt")
    early = task is not None and _is_early(state, failure, task)
    if early and task and _was_early_before(state, task):
        limit = format_duration(state.spec.min_uptime or 0)
        return Decision(False, f"the program ended within {limit} (min_uptime) twice in a row; no third attempt")
    return _decide_by_budget(state, now, task, alone, early=early)


# --- restarts that do not count ---------------------------------------------------------------------------------------


def _decide_free_restart(state: State, failure: Failure, now: float, alone: Task | None) -> Decision | None:
    """Return the decision for a failure that the job did not cause; None if the usual rules apply."""
    if failure.cause is FailureCause.PORT_COLLISION and state.restarts_for_ports < PORT_RESTARTS:
        done = state.restarts_for_ports + 1
        return Decision(True, f"{_FREE}: a reserved port was taken ({done} of {PORT_RESTARTS})", charged=False)
    if not failure.blameless:
        return None
    done = count_consecutive_restarts(state, now, alone)
    if failure.task and not alone:  # a gang restart must not exceed the limit of a single task
        done = max(done, count_consecutive_restarts(state, now, state.tasks[failure.task]))
    if failure.cause in _NEVER_RAN and done >= MAX_LAUNCH_RESTARTS:
        return None
    if done >= MAX_FREE_RESTARTS:
        ran = format_duration(MIN_RUN_SECONDS)
        reason = (
            f"{MAX_FREE_RESTARTS} restarts in a row were not caused by the job, and nothing ran for {ran} in between"
        )
        return Decision(False, reason)
    times = f", {done + 1} times in a row" if done else ""
    why = "its program was never started" if failure.cause in _NEVER_RAN else "not caused by the job"
    delay = compute_backoff(state.spec.backoff, done, _build_seed(state, alone))
    return Decision(True, f"{_FREE}: {why}{times}", delay, charged=False)


def count_consecutive_restarts(state: State, now: float, alone: Task | None) -> int:
    """Return the uncounted restarts since anything ran for long: of the gang, or of one task alone."""
    if alone:
        started_at, done = alone.started_at if alone.session == state.session else None, alone.free
    else:
        started_at, done = state.started_at, state.free
    return 0 if started_at is not None and now - started_at >= MIN_RUN_SECONDS else done


# --- failures that are not retried ------------------------------------------------------------------------------------


def explain_no_restart(state: State, failure: Failure) -> str:
    """Return why nothing restarts although restarts are left; empty if it may."""
    if failure.diagnosis and not failure.diagnosis.retry:
        return f"a failure of this kind ({failure.diagnosis.kind.value}) does not go away by itself"
    if limit := memory_policy.explain_limit(state, failure):
        return limit
    if failure.task is None or failure.exit_code is None:
        return ""
    role = failure.task.role
    codes = state.spec.find_no_retry_on(role)
    if failure.exit_code not in codes:
        return ""
    key = "no_retry_on" if state.roles[role].spec.no_retry_on is None else f"roles.{role}.no_retry_on"
    return f"exit code {failure.exit_code} is not retried ({key} = {list(codes)})"


def _is_early(state: State, failure: Failure, task: Task) -> bool:
    limit = state.spec.min_uptime
    if not limit or failure.failure_class is not FailureClass.USER or failure.cause not in _PROGRAM_ENDED:
        return False
    return task.session != state.session or failure.at - task.started_at < limit


def _was_early_before(state: State, task: Task) -> bool:
    """Return True if the program ended as early the last time: in the last session, or the task's last attempt."""
    role = state.roles[task.id.role]
    return bool(task.early if role.spec.restart is RestartScope.TASK else role.early)


# --- budgets ----------------------------------------------------------------------------------------------------------


def _decide_by_budget(state: State, now: float, task: Task | None, alone: Task | None, *, early: bool) -> Decision:
    counted = select_counted_restarts(state, now)
    window = state.spec.restart_window
    within = f" within {format_duration(window)}" if window else ""
    limit, used = state.spec.max_restarts, len(counted)
    if used >= limit:
        return Decision(False, _explain_used_up(limit, within, "max_restarts"), considered=limit > 0)
    reason = f"restart {used + 1} of {limit}{within}"
    name = task.id.role if task else ""
    own = state.roles[name].spec.max_restarts if task else None
    if own is not None:
        role_restarts = sum(restart.role == name for restart in counted)
        if role_restarts >= own:
            key = f"roles.{name}.max_restarts"
            return Decision(False, _explain_used_up(own, within, key))
        reason += f", {role_restarts + 1} of {own} for {name}"
    before = sum(restart.alone == (alone.id if alone else None) for restart in counted)
    delay = compute_backoff(state.spec.backoff, before, _build_seed(state, alone))
    return Decision(True, reason, delay, early=early)


def _explain_used_up(limit: int, within: str, key: str) -> str:
    times = "once" if limit == 1 else f"{limit} times"
    return f"already restarted {times}{within} ({key} = {limit})" if limit else f"{key} = 0"


def select_counted_restarts(state: State, now: float) -> Sequence[Restart]:
    """Return the restarts that count against `max_restarts` now."""
    window = state.spec.restart_window
    return [restart for restart in state.restarts if window is None or restart.at > now - window]


# --- back-off ---------------------------------------------------------------------------------------------------------


def _build_seed(state: State, alone: Task | None) -> str:
    return f"{state.job_id}/{alone.id}" if alone else state.job_id


def compute_backoff(base: float, done: int, seed: str) -> float:
    """Return the seconds until the next restart: none before the first, then `base`, doubling up to a minute.

    A jitter of up to a quarter (added, but subtracted at the maximum) keeps jobs that failed together from restarting
    together. It is derived from the job's id, so that a replay computes the same.
    """
    if done == 0:
        return 0.0
    jitter = zlib.crc32(f"{seed}/{done}".encode()) / 2**32 / 4
    return min(base * 2.0 ** min(done - 1, 30) * (1 + jitter), MAX_BACKOFF_SECONDS * (1 - jitter))
