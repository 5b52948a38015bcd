"""Memory requests that are too low, or nearly so."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts
from tony.advice.heuristic import Heuristic, Threshold, change_role_setting, format_size, round_memory
from tony.advice.recommendation import Evidence, Recommendation, Severity
from tony.units import Unit, format_amount, format_count


class MemoryUnderRequested(Heuristic):
    """Recommends more memory."""

    name = "memory-tight"
    title = "Memory request is too low"
    thresholds = (
        Threshold("near", 0.92, Unit.SHARE, "minimum share of the requested memory that is resident at the peak"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs; one is enough if a task ran out of memory"),
        Threshold("more", 1.25, Unit.TIMES, "the requested memory is recommended"),
        Threshold("much_more", 1.5, Unit.TIMES, "the same after a task ran out of memory"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            runs = [(run, known) for run, known in facts.find_role(name) if known.memory >= now.memory]
            died = sum(known.out_of_memory for _, known in runs)
            near = [known for _, known in runs if (known.resident or 0) >= self.limits["near"] * now.memory]
            if not died and (len(near) < self.limits["runs"] or now not in near):
                continue
            yield self._build_recommendation(name, now, died, near)

    def _build_recommendation(self, name: str, now: RoleFacts, died: int, near: list[RoleFacts]) -> Recommendation:
        new = round_memory(now.memory * self.limits["much_more" if died else "more"])
        highest = max((known.resident or 0 for known in near), default=0)
        limit = format_amount(now.memory, Unit.BYTES)
        peak = f", peak {format_amount(highest, Unit.BYTES)}" if highest else ""
        if died:
            says = f"{name} ran out of memory (limit {limit}{peak}; {format_count(died, 'task')} killed)"
        else:
            says = f"{name} nearly ran out of memory (limit {limit}{peak})"
        evidence = [Evidence("memory requested", now.memory, Unit.BYTES)]
        if highest:
            evidence.append(Evidence("highest resident memory of any task", highest, Unit.BYTES))
        if died:
            evidence.append(Evidence("tasks killed for their memory", died))
        return self.recommend(
            Severity.HIGH if died else Severity.MEDIUM,
            says,
            tuple(evidence),
            role=name,
            patch=change_role_setting(name, "memory", format_size(now.memory), format_size(new)),
            runs=max(1, len(near)),
        )
