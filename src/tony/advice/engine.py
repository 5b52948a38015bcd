"""Loads the heuristics, built-in ones and plug-ins, and computes recommendations from facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points

from tony.advice.facts import Facts
from tony.advice.heuristic import RUNS_THAT_PROVE, Heuristic
from tony.advice.heuristics.checkpoints import CheckpointBound, CheckpointInterval
from tony.advice.heuristics.container_time import ContainersHeldAfterExit, StartupOverhead
from tony.advice.heuristics.cpu import CpuOverRequested, CpuUnderRequested
from tony.advice.heuristics.futile_restarts import FutileRestarts
from tony.advice.heuristics.gpus import DataBound, IdleGpus
from tony.advice.heuristics.memory import MemoryOverRequested, MemoryUnderRequested
from tony.advice.heuristics.task_load import ParameterServers, SkewedRanks
from tony.advice.recommendation import Advice, Recommendation, SettingChange, SettingKey, SettingValue, Severity
from tony.units import parse_size

#: Entry points through which other packages offer heuristics.
GROUP = "tony.advice"
#: In the order of recommendations of the same severity.
BUILT_IN: tuple[type[Heuristic], ...] = (
    IdleGpus,
    MemoryUnderRequested,
    MemoryOverRequested,
    DataBound,
    CheckpointInterval,
    CheckpointBound,
    SkewedRanks,
    FutileRestarts,
    ContainersHeldAfterExit,
    ParameterServers,
    CpuUnderRequested,
    CpuOverRequested,
    StartupOverhead,
)
_ORDER = {severity: number for number, severity in enumerate(Severity)}


def load_heuristics() -> tuple[tuple[Heuristic, ...], tuple[str, ...]]:
    """Return an instance of each heuristic, and an error for each that cannot be loaded."""
    found = [heuristic() for heuristic in BUILT_IN]
    problems = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            made = point.load()()
        except Exception as error:  # errors of another package must not stop the built-in ones
            problems.append(f"the heuristic {point.name} ({point.value}) cannot be loaded: {error}")
            continue
        if isinstance(made, Heuristic):
            found.append(made)
        else:
            problems.append(f"the heuristic {point.name} ({point.value}) is not a tony.advice.heuristic.Heuristic")
    return tuple(found), tuple(problems)


def advise(facts: Facts, heuristics: Sequence[Heuristic] | None = None) -> Advice:
    """Return the recommendations for a job.

    Args:
        heuristics: all by default. One that fails is reported, and the others run.
    """
    problems = list(facts.problems)
    if heuristics is None:
        heuristics, broken = load_heuristics()
        problems += broken
    recommendations: list[Recommendation] = []
    for heuristic in heuristics:
        try:
            recommendations += list(heuristic.evaluate(facts))
        except Exception as error:  # a bug in one of them, perhaps in another package, must not hide the others
            problems.append(f"the heuristic {heuristic.name} failed: {type(error).__name__}: {error}")
    recommendations.sort(key=lambda recommendation: _ORDER[recommendation.severity])
    patch, later = combine_changes(recommendations)
    return Advice(
        job=facts.run.job,
        runs=tuple(run.job for run in facts.runs),
        findings=tuple(recommendations),
        patch=patch,
        later=later,
        unknown=tuple(_find_unknowns(facts)),
        problems=tuple(problems),
    )


def combine_changes(
    recommendations: Iterable[Recommendation],
) -> tuple[tuple[SettingChange, ...], tuple[SettingChange, ...]]:
    """Split the changes of several recommendations into those for now, and those to make after a run with them.

    Of two changes of one value, the one of the more severe recommendation counts. Changes of a role's memory and cores
    wait if its load will change: with fewer servers each has more load, and with more cores there may be more data
    workers, which use memory.
    """
    found: dict[SettingKey, SettingChange] = {}
    for recommendation in recommendations:
        for change in recommendation.patch:
            found.setdefault(change.key, change)
    later = [change for change in found.values() if _needs_wait(change, found)]
    return tuple(change for change in found.values() if change not in later), tuple(later)


def _needs_wait(change: SettingChange, others: Mapping[SettingKey, SettingChange]) -> bool:
    *role, name = change.key
    if role[:1] != ["roles"] or name not in ("memory", "vcores"):
        return False
    if SettingKey((*role, "instances")) in others:
        return True
    cores = others.get(SettingKey((*role, "vcores")))
    if name == "vcores" or cores is None or _get_number(cores.new) <= _get_number(cores.old):
        return False
    return _get_number(change.new) < _get_number(change.old)


def _get_number(value: SettingValue) -> float:
    """Return a number of cores, or a size in bytes."""
    return parse_size(value.value) if isinstance(value.value, str) else value.value or 0


def _find_unknowns(facts: Facts) -> Iterable[str]:
    """Yield what could not be checked for lack of data."""
    run = facts.run
    if not any(known.used for known in run.roles.values()):
        yield "Resource use: there are no metrics."
    elif any(known.gpus and not known.list_means("gpu0.util") for known in run.roles.values()):
        yield "GPU use: there are no GPU metrics."
    if not run.ledger.has_steps:
        yield "Steps: none were reported with tony.progress."
    if run.saves is None:
        yield "Checkpoints: none were reported with tony.checkpoint."
    succeeded = sum(each.succeeded for each in facts.runs)
    if succeeded < RUNS_THAT_PROVE:
        needed = RUNS_THAT_PROVE
        yield f"Trend checks need {needed} successful runs; this job has {succeeded}."
