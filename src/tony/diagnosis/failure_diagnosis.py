"""Classifies the exit of a program: its kind of failure, whether the program was the cause of it, and what to do."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tony.diagnosis.line_rules import find_rule, find_words_rule, get_rule
from tony.diagnosis.rule import Rule
from tony.diagnosis.rules.programs import LAST_LINE
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import ClusterKill, ContainerFacts, FailureCause, FailureFacts, MessageFacts
from tony.model.own_rule import OwnRule
from tony.model.program_exit import CRASH_SIGNALS, ExitReason, ExitStatus

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
#: Exits that say more than a last line of any kind: their kinds, and whether it may pass. Those of a shell are 126 and
#: 127, if it could not start the command, and 128 + a signal; 124 is that of `timeout`.
_EXITS: Mapping[str | int | None, tuple[FailureKind, bool]] = {
    126: (FailureKind.LAUNCH, False),
    127: (FailureKind.LAUNCH, False),
    124: (FailureKind.TIMEOUT, True),
    "SIGXCPU": (FailureKind.QUOTA, False),
    128 + signal.SIGXCPU: (FailureKind.QUOTA, False),
    "SIGXFSZ": (FailureKind.QUOTA, False),
    128 + signal.SIGXFSZ: (FailureKind.QUOTA, False),
    **{
        word: (FailureKind.KILLED, True)
        for sent in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
        for word in (sent.name, 128 + sent)
    },
}
#: Seconds of running after which an error that no rule knows may pass, although the program reported no step.
_PROGRESS_SECONDS = 60.0
#: Advice where the rule of the output gives none.
_ADVICE: Mapping[FailureKind, str] = {
    FailureKind.USER_CODE: "see what the program says above, correct it, and run the job again",
    FailureKind.USER_DATA: "check the input that the line names",
    FailureKind.ACCELERATOR: "run the job again; if it fails on the same host only, leave that host out",
    FailureKind.NETWORK: "check the address, that its service runs, and that the node may reach it",
    FailureKind.RENDEZVOUS: "find why the tasks cannot connect: the address, the port, or a task that ended earlier",
    FailureKind.NODE: "run the job again: no program failed; if the same host fails again, tell its administrator",
    FailureKind.PREEMPTION: "run the job again, with max_restarts and checkpoints, or in a queue of its own",
    FailureKind.QUOTA: "request less, or ask the cluster's administrator for more",
    FailureKind.STORAGE: "see whether the disk or the file system is full or down, then run the job again",
    FailureKind.PERMISSION: "give the user of the job access to what the line names",
    FailureKind.MEMORY: "request more memory for the role (memory, or --memory of tony run), or load less at a time",
    FailureKind.LAUNCH: "correct the command, or activate the environment that has it",
    FailureKind.HANG: "see where the tasks wait while the job runs: tony stacks",
    FailureKind.TIMEOUT: "raise the limit that the message names to what the program needs, or make it faster",
    FailureKind.OURS: "report it with the job directory, which has am.log, the executors' logs and the events",
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
    if cause is FailureCause.REFUSED and isinstance(facts, MessageFacts):
        found = _classify_refusal(facts.message, found)
    if isinstance(facts, ContainerFacts) and facts.kill is ClusterKill.PREEMPTED:
        found = replace(found, kind=FailureKind.PREEMPTION)
    return replace(found, evidence=evidence, advice=found.advice or _choose_advice(found.kind, evidence))


def _classify_refusal(message: str, found: Diagnosis) -> Diagnosis:
    """Return what a rule knows about the scheduler's words, such as those about an image."""
    rule = find_rule(message)
    return replace(found, kind=rule.kind, advice=rule.advice) if rule and rule.advice else found


def _choose_advice(kind: FailureKind, evidence: Sequence[EvidenceLine]) -> str:
    place = evidence[0].code_place.partition(": ")[0] if evidence else ""
    if kind is FailureKind.USER_CODE and place:
        return f"correct the program, see {place}, and run the job again"
    return _ADVICE.get(kind, "")


def _classify(cause: FailureCause, status: ExitStatus | None, rule: Rule | None) -> Diagnosis:
    kind = _KINDS.get(cause)
    if kind is FailureKind.RENDEZVOUS and rule and rule.kind is FailureKind.NETWORK:
        kind = rule.kind  # a port of the program's own
    if kind is not None:
        return Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=cause not in _FINAL_CAUSES)
    is_known = status is not None and (status.signal or status.code) in _EXITS
    is_vague = rule is None or rule.name == LAST_LINE
    if rule is None or status is None or status.reason is ExitReason.MEMORY or (is_known and is_vague):
        return _classify_exit(status)
    return _classify_line(rule, status)


def _classify_line(rule: Rule, status: ExitStatus) -> Diagnosis:
    """Return what a line says; of one that only a rule for any error matches, its words do.

    Where these say nothing either, the error may pass if the program had made progress. One that comes at the beginning
    is most likely there again at the next attempt.
    """
    if rule.retry is None:
        rule = find_words_rule(status.evidence[0].text) or rule
    retry = _made_progress(status) if rule.retry is None else rule.retry
    return Diagnosis(kind=rule.kind, meaning=rule.meaning, retry=retry, advice=rule.advice)


def _classify_exit(status: ExitStatus | None) -> Diagnosis:
    """Return what the exit code or signal of a program says that printed no error."""
    kind, retry, advice = FailureKind.USER_CODE, True, ""
    if status and (status.signal or status.code) in _EXITS:
        kind, retry = _EXITS[status.signal or status.code]
        if kind is FailureKind.KILLED:
            advice = "nothing in the job has to change: a user, a limit of the machine or its shutdown sent the signal"
    elif status and status.signal in CRASH_SIGNALS:
        retry = _made_progress(status)
        advice = "a native library crashed: with PYTHONFAULTHANDLER=1 in its environment, Python says in which line"
    elif status and status.code:
        advice = f"it printed no error: look for sys.exit({status.code}) or os._exit({status.code}) in the program"
    return Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=retry, advice=advice)


def _made_progress(status: ExitStatus) -> bool:
    return status.step is not None or status.duration >= _PROGRESS_SECONDS
