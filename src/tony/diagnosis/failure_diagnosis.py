"""Says what kind of failure an exit is, whether the program was the cause of it, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from tony.diagnosis.line_rules import get_rule
from tony.model.diagnosis import Diagnosis, FailureKind, LineMeaning
from tony.model.failure import FailureCause
from tony.model.program_exit import ExitReason, ExitStatus

#: The kinds of causes that do not depend on output. The next attempt may succeed, but for `_FINAL_CAUSES`.
_KINDS: Mapping[FailureCause, FailureKind] = {
    FailureCause.MEMORY: FailureKind.MEMORY,
    FailureCause.LAUNCH: FailureKind.LAUNCH,
    FailureCause.LIMIT: FailureKind.QUOTA,
    FailureCause.LOST: FailureKind.NODE,
    FailureCause.SILENT: FailureKind.NODE,
    FailureCause.PORT_COLLISION: FailureKind.RENDEZVOUS,
    FailureCause.QUEUE_TIMEOUT: FailureKind.QUOTA,
    FailureCause.ALLOCATION_TIMEOUT: FailureKind.QUOTA,
    FailureCause.REGISTRATION_TIMEOUT: FailureKind.NODE,
    FailureCause.STARTUP_TIMEOUT: FailureKind.HANG,
    FailureCause.EXECUTION_TIMEOUT: FailureKind.TIMEOUT,
    FailureCause.JOB_TIMEOUT: FailureKind.TIMEOUT,
    FailureCause.GROUP_TIMEOUT: FailureKind.TIMEOUT,
    FailureCause.LIFETIME: FailureKind.TIMEOUT,
    FailureCause.KILLED: FailureKind.KILLED,
    FailureCause.REFUSED: FailureKind.QUOTA,
    FailureCause.UNSATISFIABLE: FailureKind.QUOTA,
    FailureCause.STORAGE: FailureKind.STORAGE,
    FailureCause.AM_LOST: FailureKind.NODE,
    FailureCause.SCHEDULER_LOST: FailureKind.NODE,
    FailureCause.BUG: FailureKind.OURS,
}
#: Causes that the next attempt would meet again.
_FINAL_CAUSES = frozenset({FailureCause.LAUNCH, FailureCause.KILLED, FailureCause.REFUSED, FailureCause.UNSATISFIABLE})
#: Exit codes by which a shell says that it could not start the command.
_SHELL_LAUNCH_CODES = (126, 127)


def diagnose(cause: FailureCause, status: ExitStatus | None) -> Diagnosis:
    """Return the diagnosis of a failed program, from its cause, its exit and its evidence.

    Args:
        status: None if no exit was reported.
    """
    kind = _KINDS.get(cause)
    evidence = status.evidence if status else ()
    if kind is not None:
        retry = cause not in _FINAL_CAUSES
        return Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=retry, evidence=evidence)
    rule = get_rule(evidence[0].rule) if evidence else None
    if rule is not None and not (status and status.reason is ExitReason.MEMORY):
        return Diagnosis(kind=rule.kind, meaning=rule.meaning, retry=rule.retry, advice=rule.advice, evidence=evidence)
    if status and status.code in _SHELL_LAUNCH_CODES:
        return Diagnosis(kind=FailureKind.LAUNCH, meaning=LineMeaning.CAUSE, retry=False, evidence=evidence)
    return Diagnosis(kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=True, evidence=evidence)
