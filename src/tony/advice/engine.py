"""The door: facts -> advice. Pure but for the look-up of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tony.advice.facts import Facts
from tony.advice.heuristic import RUNS_THAT_PROVE, Heuristic
from tony.advice.recommendation import Advice, Finding, SettingChange, Severity
from tony.advice.registry import all_heuristics
from tony.units import parse_size

_ORDER = {severity: number for number, severity in enumerate(Severity)}


def advise(facts: Facts, heuristics: Sequence[Heuristic] | None = None) -> Advice:
    """What could be better about a job.

    Args:
        heuristics: all that there are, unless something is said. One that fails is named, and the others go on.
    """
    problems = list(facts.problems)
    if heuristics is None:
        heuristics, broken = all_heuristics()
        problems += broken
    findings: list[Finding] = []
    for heuristic in heuristics:
        try:
            findings += list(heuristic.look(facts))
        except Exception as error:  # a mistake in one of them, perhaps another package's, must not hide the others
            problems.append(f"the heuristic {heuristic.name} failed: {type(error).__name__}: {error}")
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    patch, later = together(findings)
    return Advice(
        job=facts.run.job,
        runs=tuple(run.job for run in facts.runs),
        findings=tuple(findings),
        patch=patch,
        later=later,
        unknown=tuple(_unknown(facts)),
        problems=tuple(problems),
    )


def together(findings: Iterable[Finding]) -> tuple[tuple[SettingChange, ...], tuple[SettingChange, ...]]:
    """The changes of several findings that may be made at once, and those that must wait for a run with them.

    Of two for one value the graver finding's counts. Fewer servers have more to do each, and more cores may be used by
    more workers, who take memory: what goes by the present load of such a role waits.
    """
    found: dict[str, SettingChange] = {}
    for finding in findings:
        for change in finding.patch:
            found.setdefault(change.key, change)
    later = [change for change in found.values() if _must_wait(change, found)]
    return tuple(change for change in found.values() if change not in later), tuple(later)


def _must_wait(change: SettingChange, others: Mapping[str, SettingChange]) -> bool:
    role, _, name = change.key.rpartition(".")
    if not role.startswith("roles.") or name not in ("memory", "vcores"):
        return False
    if f"{role}.instances" in others:
        return True
    cores = others.get(f"{role}.vcores")
    more = cores is not None and int(cores.new) > int(cores.old)
    return more and name == "memory" and parse_size(change.new.strip('"')) < parse_size(change.old.strip('"'))


def _unknown(facts: Facts) -> Iterable[str]:
    """What of the job itself nobody has measured or told."""
    run = facts.run
    if not any(known.used for known in run.roles.values()):
        yield "what its programs used: nothing was measured"
    elif any(known.gpus and not known.means("gpu0.util") for known in run.roles.values()):
        yield "what its GPUs did: nothing was measured of them"
    if not run.ledger.told:
        yield "its steps: programs tell none with tony.progress"
    if run.saves is None:
        yield "its checkpoints: programs tell none with tony.checkpoint"
    succeeded = sum(each.succeeded for each in facts.runs)
    if succeeded < RUNS_THAT_PROVE:
        needed = RUNS_THAT_PROVE
        yield f"what several runs have in common: {succeeded} of this job succeeded, of {needed} that are needed"
