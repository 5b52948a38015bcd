"""Why a job failed, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tony.diagnosis.line_rules import find_words_rule, get_rule
from tony.jobs.failure_text import format_advice, format_decision, format_evidence, format_outcome
from tony.jobs.next_commands import format_next_commands, list_next_commands
from tony.jobs.root_cause import RootCause
from tony.model.diagnosis import FailureKind
from tony.model.ids import format_task_ranges
from tony.model.job_report import JobReport
from tony.model.own_rule import OWN_RULES

#: Ranges of tasks (`worker:0-6`) listed.
_SHOWN_RANGES = 5
#: Kinds of failures after which a job that has restarted needs nothing more: no program failed.
_SETTLED_BY_RESTART = frozenset({FailureKind.NODE, FailureKind.PREEMPTION})


def format_root_cause(
    report: JobReport, root_cause: RootCause, *, is_past: bool = False, portal: str | None = None
) -> Sequence[str]:
    """Return the root task and its kind of failure, the evidence, its consequences, the decision, and what to do.

    Args:
        is_past: the job has restarted since.
        portal: address of the portal that the report comes from.
    """
    failed = f"; session {root_cause.session} failed" if is_past else ""
    lines = [f"{format_outcome(report)}{failed}: {root_cause.reason}", f"  Kind: {root_cause.class_.value}"]
    lines += format_evidence(root_cause)
    if root_cause.consequences:
        lines.append(f"  Failed because of it: {format_task_ranges(list(root_cause.consequences), _SHOWN_RANGES)}")
    lines += format_decision(root_cause)
    is_settled = is_past and root_cause.class_ in _SETTLED_BY_RESTART
    lines += format_advice(replace(root_cause, advice="") if is_settled else root_cause)
    if is_past and report.resumption:
        lines.append(f"  Session {report.session} {report.resumption}")
    commands = list_next_commands(report, root_cause, portal=portal)
    return lines + format_next_commands([each for each in commands if not each.command.startswith("tony why ")])


def format_rules(root_cause: RootCause) -> Sequence[str]:
    """Return the rules that the evidence met, and where their texts come from."""
    rules = dict.fromkeys(line.rule for line in root_cause.evidence)
    first = get_rule(next(iter(rules), ""))
    if first and first.retry is None and (words := find_words_rule(root_cause.evidence[0].text)):
        rules[words.name] = None
    if not any(rules):
        return ["  Rules: none; the kind follows from how the task ended"]
    return ["  Rules:", *(f"    {_format_rule(name, root_cause)}" for name in rules if name)]


def _format_rule(name: str, root_cause: RootCause) -> str:
    rule = get_rule(name)
    if rule:
        return f"{name}: {rule.kind.value}, {rule.meaning.value}; {rule.source}"
    decisive = f"{root_cause.class_.value}; " if name == root_cause.evidence[0].rule else ""
    where = "[[diagnosis.rules]] of the job or its site" if name.startswith(OWN_RULES) else "another version of tony"
    return f"{name}: {decisive}{where}"
