"""GPUs that are never used, or that wait for data."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from tony.advice.facts import Facts, RoleFacts, Run
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.recommendation import Evidence, Recommendation, Saving, SettingChange, Severity, savings_range
from tony.history.metrics_reader import Peak
from tony.model.job_spec import MIB
from tony.model.metric_definitions import find_program_name
from tony.units import Unit, format_amount, format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU of one task.

    Attributes:
        number: index among the GPUs of the task, from 0.
        util: utilisation, 0 to 1.
        opened: peak memory in use, bytes; infinite if unknown.
    """

    task: str
    number: int
    util: Peak
    opened: float


def devices(known: RoleFacts) -> list[Device] | None:
    """Return all GPUs of a role; None unless metrics of all are known."""
    found = []
    for task, used in known.used.items():
        for number in range(known.gpus):
            util, memory = used.get(f"gpu{number}.util"), used.get(f"gpu{number}.memory")
            if util is None:
                return None
            opened = memory.most if memory else float("inf")
            found.append(Device(task=task, number=number, util=util, opened=opened))
    return found if len(found) >= known.gpus * known.tasks > 0 else None


def mean_use(known: RoleFacts) -> float | None:
    """Return the mean utilisation of its GPUs; None unless metrics of all are known."""
    found = devices(known)
    return statistics.fmean(device.util.mean for device in found) if found else None


class IdleGpus(Heuristic):
    """Recommends the number of GPUs that are used."""

    name = "gpus-idle"
    title = "GPUs that are never used"
    thresholds = (
        *PROOF,
        Threshold("used", 0.01, Unit.SHARE, "minimum utilisation in any sample: then the GPU counts as used"),
        Threshold("memory", 64 * MIB, Unit.BYTES, "minimum memory in use: then a program has opened the GPU"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            proofs = self.find_proofs(facts, name, lambda known: bool(devices(known))) if now.gpus else []
            every = [device for _, known in proofs for device in devices(known) or ()]
            if not every:
                continue
            idle = set(range(now.gpus)) - {device.number for device in every if device.util.most >= self.limits["used"]}
            if idle:
                yield self._build_recommendation(name, now, proofs, every, idle)

    def _build_recommendation(
        self, name: str, now: RoleFacts, proofs: list[tuple[Run, RoleFacts]], every: list[Device], idle: set[int]
    ) -> Recommendation:
        left = now.gpus - len(idle)
        untouched = all(device.opened < self.limits["memory"] for device in every if device.number in idle)
        last = idle == set(range(left, now.gpus))
        patch: tuple[SettingChange, ...] = ()
        hint = "The program opens them: configure it to use fewer before the job requests fewer."
        if not left:
            hint = "If the program needs no GPU, set gpus = 0."
        elif untouched and last and now.procs <= left:
            patch, hint = change_role_setting(name, "gpus", now.gpus, left), ""
        elif untouched and not last:
            hint = "They are not the last ones of each task: let the program use the first ones, then request fewer."
        return self.recommend(
            Severity.HIGH,
            f"{len(idle)} of the {format_count(now.gpus, 'GPU')} of each task of {name} never computed anything",
            (
                Evidence("GPUs requested", now.gpus),
                Evidence("GPUs used", left),
                Evidence(
                    "highest utilisation of the others",
                    max(device.util.most for device in every if device.number in idle),
                    Unit.SHARE,
                ),
                Evidence("tasks", now.tasks),
            ),
            role=name,
            saving=Saving(gpu_hours=savings_range(len(idle) * known.held for _, known in proofs)),
            patch=patch,
            hint=hint,
            runs=len(proofs),
        )


#: Names of metrics with the seconds per step in which programs wait for data.
_WAITING = re.compile(r"(data|input|load(er)?|fetch)([_.-]?(time|wait|seconds|s))", re.IGNORECASE)


class DataBound(Heuristic):
    """Recommends more cores if the CPU is the limit."""

    name = "data-bound"
    title = "Steps that wait for data"
    thresholds = (
        *PROOF,
        Threshold("waits", 0.25, Unit.SHARE, "minimum share of each step that the program reports as waiting for data"),
        Threshold("gpu", 0.5, Unit.SHARE, "maximum GPU utilisation, on average"),
        Threshold("gpu_works", 0.02, Unit.SHARE, "minimum GPU utilisation: below it they are not used at all"),
        Threshold("cpu", 0.9, Unit.SHARE, "minimum share of the requested cores in use, on average"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            reported = self.find_proofs(facts, name, lambda known: _find_waiting_share(known) is not None)
            waits = [_find_waiting_share(known) or 0.0 for _, known in reported]
            seen = self.find_proofs(
                facts, name, lambda known: mean_use(known) is not None and bool(known.list_means("cpu"))
            )
            busy = [self._find_gpu_use(known) for _, known in seen]
            if reported and min(waits) >= self.limits["waits"]:
                yield self._build_recommendation(name, now, reported, waits, is_reported=True)
            elif seen and all(each is not None for each in busy):
                yield self._build_recommendation(
                    name, now, seen, [1 - each for each in busy if each is not None], is_reported=False
                )

    def _find_gpu_use(self, known: RoleFacts) -> float | None:
        """Return the GPU utilisation if the GPUs wait for a busy CPU; else None."""
        use, cores = mean_use(known), known.list_means("cpu")
        if use is None or not cores or not self.limits["gpu_works"] <= use < self.limits["gpu"]:
            return None
        return use if statistics.fmean(cores.values()) >= self.limits["cpu"] * known.vcores else None

    def _build_recommendation(
        self, name: str, now: RoleFacts, proofs: list[tuple[Run, RoleFacts]], idle: list[float], *, is_reported: bool
    ) -> Recommendation:
        cores = statistics.fmean([value for _, known in proofs for value in known.list_means("cpu").values()] or [0.0])
        full = cores >= self.limits["cpu"] * now.vcores
        patch: tuple[SettingChange, ...] = (
            change_role_setting(name, "vcores", now.vcores, 2 * now.vcores) if full else ()
        )
        share = statistics.fmean(idle)
        what = (
            "of each step the program waits for data"
            if is_reported
            else "of the time the GPUs are idle, and all cores are busy"
        )
        evidence = [
            Evidence("waiting for data" if is_reported else "GPUs idle, on average", share, Unit.SHARE),
            Evidence("cores requested", now.vcores, Unit.CORES),
            Evidence("cores in use, on average", cores, Unit.CORES),
        ]
        hours = [known.held * now.gpus * part for (_, known), part in zip(proofs, idle, strict=True)]
        return self.recommend(
            Severity.HIGH if now.gpus and share >= 0.5 else Severity.MEDIUM,
            f"{name}: in {format_amount(share, Unit.SHARE)} {what}",
            tuple(evidence),
            role=name,
            saving=Saving(gpu_hours=savings_range([0.0, *hours])),
            patch=patch,
            hint=""
            if full
            else "The CPU is not the limit: prefetch, use more loader workers, or read from a nearer place.",
            runs=len(proofs),
        )


def _find_waiting_share(known: RoleFacts) -> float | None:
    """Return the share of a step that the programs report as waiting for data; None if they do not report it."""
    shares = []
    for task, used in known.used.items():
        waits = [
            peak.mean
            for series, peak in used.items()
            if (reported := find_program_name(series)) is not None and _WAITING.fullmatch(reported)
        ]
        if waits and known.steps.get(task, 0.0) > 0:
            shares.append(min(1.0, max(waits) / known.steps[task]))
    return statistics.fmean(shares) if shares else None
