"""Cores that a role asks for and never uses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tony.advice.facts import Facts
from tony.advice.heuristic import PROOF, Heuristic, Threshold, of_role
from tony.advice.number_format import amount
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, Severity, savings_range


class CpuOverAsked(Heuristic):
    """Proposes the highest use of several runs, and more."""

    name = "cpu-over-asked"
    title = "Cores that are asked for and never used"
    about = """\
No task of the role has ever had as many cores at work as it asks for, not even for the few seconds of one
measurement. On clusters that count cores, others wait for them.

The proposal is the highest use that was ever measured, times `headroom`, rounded up. Nothing is proposed where cores
were taken away meanwhile (the group's limit, `throttled`), for then the use says nothing about the need.

On the scheduler `local` cores are shares: nobody waits for them, and a smaller number only says whom a busy machine
serves first.

If programs make as many threads as they are given cores, set the number of threads to the new number, too."""
    thresholds = (
        *PROOF,
        Threshold("headroom", 1.5, Measure.TIMES, "the highest use is what is proposed, at least"),
        Threshold("share", 0.4, Measure.SHARE, "of the cores must be saved, else it is not worth a word"),
        Threshold("throttled", 0.01, Measure.SHARE, "of the time in which a limit stood in the way, at most"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Role by role."""
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
                f"each task of {name} asks for {amount(now.vcores, Measure.CORES)}, and none ever used more than "
                f"{amount(highest, Measure.CORES)}",
                (
                    Evidence("cores asked", now.vcores, Measure.CORES),
                    Evidence("highest use of any task", highest, Measure.CORES),
                    Evidence("tasks", now.tasks),
                ),
                role=name,
                saving=Saving(core_hours=savings_range((now.vcores - new) * known.held for _, known in proofs)),
                patch=of_role(name, "vcores", str(now.vcores), str(new)),
                runs=len(proofs),
            )
