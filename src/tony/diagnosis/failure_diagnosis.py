"""Classifies the exit of a program: its kind of failure, whether the program was the cause of it, and what to do."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tony.diagnosis.line_rules import get_rule
from tony.diagnosis.rule import Rule
from tony.diagnosis.rules.programs import LAST_LINE
from tony.model.diagnosis import Diagnosis, FailureKind, LineMeaning
from tony.model.failure import ClusterKill, ContainerFacts, FailureCause, FailureFacts
from tony.model.own_rule import OwnRule
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
    FailureCause.HANG: FailureKind.HANG,
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
_FINAL_CAUSES = frozenset(
    {
        FailureCause.LAUNCH,
        FailureCause.KILLED,
        FailureCause.REFUSED,
        FailureCause.UNSATISFIABLE,
        FailureCause.JOB_TIMEOUT,
    }
)
#: Exit codes by which a shell says that it could not start the command.
_SHELL_LAUNCH_CODES = (126, 127)
#: Exits of programs without an error of their own; 128 + a signal is that of a shell, 124 that of `timeout`.
_EXITS: Mapping[str | int | None, tuple[FailureKind, bool]] = {
    124: (FailureKind.TIMEOUT, True),
    "SIGXCPU": (FailureKind.QUOTA, False),
    128 + signal.SIGXCPU: (FailureKind.QUOTA, False),
    "SIGXFSZ": (FailureKind.QUOTA, False),
    128 + signal.SIGXFSZ: (FailureKind.QUOTA, False),
}
_UNKNOWN = (FailureKind.USER_CODE, True)
#: Signals that a crash of native code ends with.
_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"})
#: Advice where the rule of the output gives none.
_ADVICE: Mapping[FailureKind, str] = {
    FailureKind.MEMORY: "request more memory for the role (memory, or --memory of tony run), or load less at a time",
    FailureKind.LAUNCH: "correct the command, or activate the environment that has it",
    FailureKind.HANG: "see where the tasks wait while the job runs: tony stacks",
    FailureKind.TIMEOUT: "raise the limit that the message names, or make the program faster",
}


def diagnose(
    cause: FailureCause,
    status: ExitStatus | None,
    facts: FailureFacts | None = None,
    own: Sequence[OwnRule] = (),
) -> Diagnosis:
    """Return the diagnosis of a failed program, from its cause, its exit and its evidence.

    Args:
        status: None if no exit was reported.
        facts: of the failure.
        own: rules of the job and its site.
    """
    evidence = status.evidence if status else ()
    rule = get_rule(evidence[0].rule, own) if evidence else None
    found = _classify(cause, status, rule)
    if isinstance(facts, ContainerFacts) and facts.kill is ClusterKill.PREEMPTED:
        found = replace(found, kind=FailureKind.PREEMPTION)
    return replace(found, evidence=evidence, advice=found.advice or _ADVICE.get(found.kind, ""))


def _classify(cause: FailureCause, status: ExitStatus | None, rule: Rule | None) -> Diagnosis:
    kind = _KINDS.get(cause)
    if kind is FailureKind.RENDEZVOUS and rule and rule.kind is FailureKind.NETWORK:
        kind = rule.kind  # a port of the program's own
    if kind is not None:
        return Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=cause not in _FINAL_CAUSES)
    if status and status.code in _SHELL_LAUNCH_CODES and (rule is None or rule.name == LAST_LINE):
        return Diagnosis(kind=FailureKind.LAUNCH, meaning=LineMeaning.CAUSE, retry=False)
    if rule is not None and not (status and status.reason is ExitReason.MEMORY):
        return Diagnosis(kind=rule.kind, meaning=rule.meaning, retry=rule.retry, advice=rule.advice)
    kind, retry = _EXITS.get(status.signal or status.code, _UNKNOWN) if status else _UNKNOWN
    return Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=retry, advice=_advise_on_exit(status))


def _advise_on_exit(status: ExitStatus | None) -> str:
    """Return what to do about a program that ended without an error message."""
    if status and status.signal in _CRASHES:
        return "a native library crashed: set PYTHONFAULTHANDLER=1 (--env of tony run) to see the line of Python"
    if status and status.code:
        return f"it printed no error: look for sys.exit({status.code}) or os._exit({status.code}) in the program"
    return ""
