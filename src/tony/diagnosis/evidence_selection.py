"""Selects the lines that say why a program failed, of those that rules found in its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tony.diagnosis.line_rules import get_rule
from tony.diagnosis.output_scanner import OutputScanner
from tony.diagnosis.rule_match import RuleMatch
from tony.diagnosis.rules.accelerators import NAMED_PEER
from tony.diagnosis.rules.jax import MISSING
from tony.diagnosis.rules.programs import CRASH, LAST_LINE
from tony.model.diagnosis import EvidenceLine, FailureKind, LineMeaning
from tony.model.ids import TaskId

#: Seconds between two found lines that separate two incidents.
_INCIDENT_SECONDS = 30.0
#: Minimum number of lines after an error, and of seconds until the last one, for a program that survived it.
_SURVIVED_LINES = 200
_SURVIVED_SECONDS = 5.0
#: Lines of evidence for one program.
MAX_EVIDENCE_LINES = 4
#: The processes at the end of a line of `jax-missing`: `1 2`, in older versions `/job:jax_worker/replica:0/task:1`.
_MISSING = re.compile(r"(?:task names|heartbeats\)):((?: (?:/job:jax_worker/replica:0/task:)?\d{1,6})+)$")
_NUMBER = re.compile(r"(\d+)(?: |$)")
#: Rules for any line that looks like an error.
_GENERIC_RULES = frozenset({"python-exception", "panic", CRASH, "java-exception"})
_WEAKEST_RULES = frozenset({"script-error", "log-error", LAST_LINE})


def select_evidence(
    scanners: Sequence[OutputScanner], ended_at: float, *, has_exited: bool = False
) -> tuple[EvidenceLine, ...]:
    """Return the lines that prove why a program ended at `ended_at`, the decisive one first.

    The decisive one is the first line about the program itself in the last incident that has one: earlier errors were
    survived, exceptions raised while that one was handled follow from it, and what the program said about its peers, or
    its launcher about the program, is not the cause. Without one, and where the program gave up because of them by a
    crash, it is the line about peers that names them, or the first one. Where no rule finds any, the last
    line of stderr is.

    Args:
        has_exited: it exited by itself, with an exit code.
    """
    line_counts = {scanner.stream: scanner.line_count for scanner in scanners}
    found = [line for scanner in scanners for line in scanner.found]
    lines = sorted(found, key=lambda line: line.at)
    incident = _find_last_incident(lines, line_counts)
    own = [line for line in incident if line.rule.meaning is LineMeaning.CAUSE]
    peers = [line for line in incident if line.rule.meaning is LineMeaning.CONSEQUENCE]
    named = [line for line in peers if line.rule.name in (MISSING, NAMED_PEER)]
    decisive = _find_decisive(own)
    if decisive is None or (decisive.rule.name == CRASH and any(line.at <= decisive.at for line in peers)):
        telling = [line for line in incident if line.rule.kind is not FailureKind.USER_CODE]
        decisive = next(iter([*named, *peers, *telling, *incident]), None)
    if decisive is None and has_exited:
        last = [line for scanner in scanners if scanner.stream == "err" and (line := scanner.find_last_line())]
        decisive = last[0] if last and ended_at - last[0].at <= _SURVIVED_SECONDS else None
    if decisive is None:
        return ()
    others = [line for line in (*own, *peers) if line is not decisive and line.text != decisive.text]
    return tuple(_build_evidence(line, ended_at) for line in (decisive, *others[: MAX_EVIDENCE_LINES - 1]))


def name_tasks(lines: Sequence[EvidenceLine], find_task: Callable[[int], TaskId | None]) -> tuple[EvidenceLine, ...]:
    """Return lines with the tasks of the processes that they name as missing.

    Args:
        find_task: returns the task with a process of that number; None if there is none.
    """

    def find_named(text: str) -> tuple[TaskId, ...]:
        match = _MISSING.search(text)
        numbers = map(int, _NUMBER.findall(match[1])) if match else ()
        return tuple(task for number in numbers if (task := find_task(number)))

    return tuple(replace(line, named=find_named(line.text)) for line in lines)


def find_last_traceback(scanners: Sequence[OutputScanner], ended_at: float) -> tuple[EvidenceLine, ...]:
    """Return the exception with which the output of a program ended that nevertheless succeeded, if there is one."""
    found = [line for scanner in scanners if (line := scanner.find_last_exception())]
    return tuple(_build_evidence(line, ended_at) for line in found[-1:])


def add_kernel_lines(
    lines: Sequence[EvidenceLine],
    kernel: Sequence[EvidenceLine],
    *,
    is_memory: bool,
    nearby: Sequence[EvidenceLine] = (),
) -> tuple[EvidenceLine, ...]:
    """Return the lines of the output together with those of the kernel, the decisive one first.

    A limit that was hit explains what the program says in general terms, of its peers, or not at all; an error that a
    special rule knows is decisive itself.

    Args:
        is_memory: the program reached its memory limit.
        nearby: what the kernel says of the machine, perhaps about another program: last, and never decisive.
    """
    rule = get_rule(lines[0].rule) if lines else None
    is_special = rule is not None and rule.name not in _GENERIC_RULES | _WEAKEST_RULES
    if is_special and rule and rule.meaning is LineMeaning.CAUSE and not is_memory:
        found = (*lines[: max(1, MAX_EVIDENCE_LINES - len(kernel))], *kernel)
    else:
        found = (*kernel, *lines)
    return (*found, *nearby)[:MAX_EVIDENCE_LINES] if found else ()


def _find_decisive(own: Sequence[RuleMatch]) -> RuleMatch | None:
    """Return the first of a program's own lines; one of a special rule before a generic one of the same moment.

    An exception that ended something precedes those that the program caught and logged.
    """
    if not own:
        return None
    first = next((line for line in own if not line.was_caught and line.rule.name not in _WEAKEST_RULES), own[0])
    near = [line for line in own if abs(line.at - first.at) <= 1.0 and not line.follows]
    return min(near or [first], key=_rank_rule)


def _rank_rule(line: RuleMatch) -> int:
    """Return a smaller number for a rule that says more: first those of the job and its site."""
    return (line.rule.name in _GENERIC_RULES) + 2 * (line.rule.name in _WEAKEST_RULES) - line.rule.is_own


def _find_last_incident(lines: Sequence[RuleMatch], line_counts: dict[str, int]) -> Sequence[RuleMatch]:
    """Return the found lines since the last long pause, without those after which the program went on printing."""
    start = 0
    for number in range(1, len(lines)):
        if lines[number].at - lines[number - 1].at > _INCIDENT_SECONDS:
            start = number
    incident = [*lines[start:]]

    def is_near_end(line: RuleMatch) -> bool:
        return line_counts[line.stream] - line.number <= _SURVIVED_LINES

    if any(line.rule.meaning is LineMeaning.CAUSE for line in incident) or not start:
        end = incident[-1].at if incident else 0.0
        last = [line for line in incident if end - line.at <= _SURVIVED_SECONDS or is_near_end(line)]
        return last or incident
    before = [line for line in lines[:start] if is_near_end(line)]
    return [*(line for line in before if line.rule.meaning is LineMeaning.CAUSE), *incident]


def _build_evidence(line: RuleMatch, ended_at: float) -> EvidenceLine:
    ago = round(max(0.0, ended_at - line.at), 3)
    return EvidenceLine(
        stream=line.stream,
        number=line.number,
        text=line.text,
        ago=ago,
        rule=line.rule.name,
        code_place=line.code_place,
    )
