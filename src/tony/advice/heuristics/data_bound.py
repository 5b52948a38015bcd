"""GPUs that wait for data."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run, mean_use
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.recommendation import Evidence, Recommendation, Saving, SettingChange, Severity, savings_range
from tony.model.metric_definitions import OF_PROGRAMS
from tony.units import Unit, format_amount

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
            change_role_setting(name, "vcores", str(now.vcores), str(2 * now.vcores)) if full else ()
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
            if series.startswith(OF_PROGRAMS) and _WAITING.fullmatch(series.removeprefix(OF_PROGRAMS))
        ]
        if waits and known.steps.get(task, 0.0) > 0:
            shares.append(min(1.0, max(waits) / known.steps[task]))
    return statistics.fmean(shares) if shares else None
