"""Programs that want more cores than their role asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts
from tony.advice.heuristic import PROOF, Heuristic, Threshold, of_role
from tony.advice.number_format import amount
from tony.advice.recommendation import Evidence, Finding, Measure, Severity


class CpuUnderAsked(Heuristic):
    """Proposes what they use, or what they would."""

    name = "cpu-under-asked"
    title = "Too few cores"
    about = """\
Either a limit kept the role's programs from running (`throttled`), or they used more cores than they asked for: that
works while the machine has cores to spare, and is slow as soon as it has not, which nobody will see coming.

The proposal is what they used on average, rounded up; where a limit stood in the way, twice what they have, for
nobody knows how much they would use without it."""
    thresholds = (
        *PROOF,
        Threshold("throttled", 0.1, Measure.SHARE, "of the time a limit stood in the way, on average"),
        Threshold("over", 1.25, Measure.TIMES, "the cores asked were used, on average"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Role by role."""
        for name, now in facts.run.roles.items():
            found = self.proofs(facts, name, lambda known: bool(known.means("cpu")))
            proofs = [known for _, known in found if known.vcores <= now.vcores]
            if len(proofs) < self.limits["runs"]:
                continue
            throttled = min(max(known.means("throttled").values(), default=0.0) for known in proofs)
            used = min(max(known.means("cpu").values(), default=0.0) for known in proofs)
            if throttled >= self.limits["throttled"]:
                yield self._throttled(name, now, throttled, len(proofs))
            elif used >= self.limits["over"] * now.vcores and used > now.vcores + 0.5:
                yield self._over(name, now, used, len(proofs))

    def _throttled(self, name: str, now: RoleFacts, throttled: float, runs: int) -> Finding:
        return self.finding(
            Severity.MEDIUM,
            f"programs of {name} were kept from running in {amount(throttled, Measure.SHARE)} of their time, for they "
            f"have only {amount(now.vcores, Measure.CORES)}",
            (
                Evidence("cores asked", now.vcores, Measure.CORES),
                Evidence("time in which the limit stood in the way", throttled, Measure.SHARE),
            ),
            role=name,
            patch=of_role(name, "vcores", str(now.vcores), str(2 * now.vcores)),
            runs=runs,
        )

    def _over(self, name: str, now: RoleFacts, used: float, runs: int) -> Finding:
        return self.finding(
            Severity.LOW,
            f"programs of {name} used {amount(used, Measure.CORES)} on average, and ask for "
            f"{amount(now.vcores, Measure.CORES)}: on a busy machine they would be slower",
            (
                Evidence("cores asked", now.vcores, Measure.CORES),
                Evidence("used on average, by the busiest task", used, Measure.CORES),
            ),
            role=name,
            patch=of_role(name, "vcores", str(now.vcores), str(math.ceil(used))),
            runs=runs,
        )
