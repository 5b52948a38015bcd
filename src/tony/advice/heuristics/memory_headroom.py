"""Memory that is nearly, or now and then, too little."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts
from tony.advice.heuristic import Heuristic, Threshold, of_role, rounded_memory, size
from tony.advice.number_format import amount, count
from tony.advice.recommendation import Evidence, Finding, Measure, Severity


class MemoryTight(Heuristic):
    """Proposes more, before it fails again."""

    name = "memory-tight"
    title = "Memory that is nearly too little"
    about = """\
Tasks ran out of memory, or came close. A task that is killed for its memory loses the work since the last checkpoint.

What counts is resident memory, with shared pages divided among processes, without page cache. More memory costs
GB-hours and saves the work of failing runs. If memory grows without end (`pss` on the job's page), more only delays
the failure."""
    thresholds = (
        Threshold("near", 0.92, Measure.SHARE, "share of the requested memory that was resident at the peak"),
        Threshold("runs", 2, Measure.COUNT, "least number of such runs; one if a task ran out of memory"),
        Threshold("more", 1.25, Measure.TIMES, "the requested memory is recommended"),
        Threshold("much_more", 1.5, Measure.TIMES, "the same, after a task ran out of memory"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Role by role."""
        for name, now in facts.run.roles.items():
            runs = [(run, known) for run, known in facts.of(name) if known.memory >= now.memory]
            died = sum(known.out_of_memory for _, known in runs)
            near = [known for _, known in runs if (known.resident or 0) >= self.limits["near"] * now.memory]
            if not died and (len(near) < self.limits["runs"] or now not in near):
                continue
            yield self._found(name, now, died, near)

    def _found(self, name: str, now: RoleFacts, died: int, near: list[RoleFacts]) -> Finding:
        new = rounded_memory(now.memory * self.limits["much_more" if died else "more"])
        highest = max((known.resident or 0 for known in near), default=0)
        asked = amount(now.memory, Measure.BYTES)
        if died:
            says = f"{count(died, 'program')} of {name} ended for using more memory than the {asked} asked for"
        else:
            says = f"tasks of {name} came to {amount(highest, Measure.BYTES)} of the {asked} of memory asked for"
        evidence = [Evidence("memory asked", now.memory, Measure.BYTES)]
        if highest:
            evidence.append(Evidence("highest resident memory of any task", highest, Measure.BYTES))
        if died:
            evidence.append(Evidence("programs that ended for it", died))
        return self.finding(
            Severity.HIGH if died else Severity.MEDIUM,
            says,
            tuple(evidence),
            role=name,
            patch=of_role(name, "memory", size(now.memory), size(new)),
            runs=max(1, len(near)),
        )
