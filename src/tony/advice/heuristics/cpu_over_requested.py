"""Cores that a role requests and never uses."""

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
                patch=change_role_setting(name, "vcores", str(now.vcores), str(new)),
                runs=len(proofs),
            )
