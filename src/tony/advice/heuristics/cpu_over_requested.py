"""Cores that a role requests and never uses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tony.advice.facts import Facts
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.number_format import amount
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, Severity, savings_range


class CpuOverAsked(Heuristic):
    """Recommends the highest use of several runs, with headroom."""

    name = "cpu-over-asked"
    title = "Cores that are requested and never used"
    about = """\
No task of the role ever used as many cores as it requests, within any measurement. Clusters that count cores keep
them from other jobs; on `local` they are only shares.

The recommendation is the highest use times `headroom`, rounded up. There is none if a limit throttled the program.
If programs start one thread per core, set the number of threads too."""
    thresholds = (
        *PROOF,
        Threshold("headroom", 1.5, Measure.TIMES, "the highest use is recommended, at least"),
        Threshold("share", 0.4, Measure.SHARE, "least saving, as a share of the cores"),
        Threshold("throttled", 0.01, Measure.SHARE, "most time throttled by a limit"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        for name, now in facts.run.roles.items():
            proofs = self.proofs(facts, name, lambda known: known.wholly_measured)
            if not proofs:
                continue
            if any((known.most("throttled") or 0.0) > self.limits["throttled"] for _, known in facts.of(name)):
                continue
            highest = max(known.most("cpu") or 0.0 for _, known in facts.of(name))
            new = max(1, math.ceil(self.limits["headroom"] * highest))
            if now.vcores - new < max(1.0, self.limits["share"] * now.vcores):
                continue
            yield self.finding(
                Severity.MEDIUM if new <= now.vcores / 4 else Severity.LOW,
                f"each task of {name} requests {amount(now.vcores, Measure.CORES)}, and none ever used more than "
                f"{amount(highest, Measure.CORES)}",
                (
                    Evidence("cores requested", now.vcores, Measure.CORES),
                    Evidence("highest use of any task", highest, Measure.CORES),
                    Evidence("tasks", now.tasks),
                ),
                role=name,
                saving=Saving(core_hours=savings_range((now.vcores - new) * known.held for _, known in proofs)),
                patch=change_role_setting(name, "vcores", str(now.vcores), str(new)),
                runs=len(proofs),
            )
