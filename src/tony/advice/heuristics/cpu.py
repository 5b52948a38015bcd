"""Requests for cores that are too high, or too low."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tony.advice.facts import Facts
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.units import Unit, format_amount


class CpuOverRequested(Heuristic):
    """Recommends the highest use of several runs, with headroom."""

    name = "cpu-over-asked"
    title = "Cores that are requested and never used"
    thresholds = (
        *PROOF,
        Threshold("headroom", 1.5, Unit.TIMES, "the highest use is recommended"),
        Threshold("share", 0.4, Unit.SHARE, "minimum share of the cores that would be saved"),
        Threshold("throttled", 0.01, Unit.SHARE, "maximum share of time in which a limit throttled the tasks"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            proofs = self.find_proofs(facts, name, lambda known: known.wholly_measured)
            if not proofs:
                continue
            if any(
                (known.find_maximum("throttled") or 0.0) > self.limits["throttled"]
                for _, known in facts.find_role(name)
            ):
                continue
            highest = max(known.find_maximum("cpu") or 0.0 for _, known in facts.find_role(name))
            new = max(1, math.ceil(self.limits["headroom"] * highest))
            if now.vcores - new < max(1.0, self.limits["share"] * now.vcores):
                continue
            yield self.recommend(
                Severity.MEDIUM if new <= now.vcores / 4 else Severity.LOW,
                f"each task of {name} requests {format_amount(now.vcores, Unit.CORES)}, and none ever used more than "
                f"{format_amount(highest, Unit.CORES)}",
                (
                    Evidence("cores requested", now.vcores, Unit.CORES),
                    Evidence("highest use of any task", highest, Unit.CORES),
                    Evidence("tasks", now.tasks),
                ),
                role=name,
                saving=Saving(core_hours=savings_range((now.vcores - new) * known.held for _, known in proofs)),
                patch=change_role_setting(name, "vcores", now.vcores, new),
                runs=len(proofs),
            )


class CpuUnderRequested(Heuristic):
    """Recommends the measured use, or more where a limit throttled the tasks."""

    name = "cpu-under-asked"
    title = "Too few cores"
    thresholds = (
        *PROOF,
        Threshold(
            "throttled", 0.1, Unit.SHARE, "minimum share of time in which a limit throttled the tasks, on average"
        ),
        Threshold("over", 1.25, Unit.TIMES, "the requested cores were used, on average"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            found = self.find_proofs(facts, name, lambda known: bool(known.list_means("cpu")))
            proofs = [known for _, known in found if known.vcores <= now.vcores]
            if len(proofs) < self.limits["runs"]:
                continue
            throttled = min(max(known.list_means("throttled").values(), default=0.0) for known in proofs)
            used = min(max(known.list_means("cpu").values(), default=0.0) for known in proofs)
            if throttled >= self.limits["throttled"]:
                severity, new = Severity.MEDIUM, 2 * now.vcores
                says = (
                    f"programs of {name} were throttled for {format_amount(throttled, Unit.SHARE)} of their time, "
                    f"because they have only {format_amount(now.vcores, Unit.CORES)}"
                )
                evidence = Evidence("share of time throttled", throttled, Unit.SHARE)
            elif used >= self.limits["over"] * now.vcores and used > now.vcores + 0.5:
                severity, new = Severity.LOW, math.ceil(used)
                says = (
                    f"programs of {name} used {format_amount(used, Unit.CORES)} on average, and request "
                    f"{format_amount(now.vcores, Unit.CORES)}: on a busy machine they would be slower"
                )
                evidence = Evidence("used on average, by the busiest task", used, Unit.CORES)
            else:
                continue
            yield self.recommend(
                severity,
                says,
                (Evidence("cores requested", now.vcores, Unit.CORES), evidence),
                role=name,
                patch=change_role_setting(name, "vcores", now.vcores, new),
                runs=len(proofs),
            )
