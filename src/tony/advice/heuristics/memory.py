"""Memory requests that are too high, or too low."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run, gigabytes
from tony.advice.heuristic import (
    PROOF,
    Heuristic,
    Threshold,
    change_role_setting,
    grade_share,
    round_memory,
)
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.model.job_spec import MIB
from tony.units import Unit, format_amount, format_count, format_exact_size


class MemoryOverRequested(Heuristic):
    """Recommends the highest peak of several runs, with headroom."""

    name = "memory-over-asked"
    title = "Memory that is requested and never used"
    thresholds = (
        *PROOF,
        Threshold("headroom", 1.3, Unit.TIMES, "the highest peak is recommended"),
        Threshold("reserve", 128 * MIB, Unit.BYTES, "added to it"),
        Threshold("share", 0.25, Unit.SHARE, "minimum share of the request that would be saved"),
        Threshold("least", 256 * MIB, Unit.BYTES, "minimum saving per task"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            proofs = self.find_proofs(facts, name, _is_known)
            if proofs:
                yield from self._find(name, now, facts, proofs)

    def _find(
        self, name: str, now: RoleFacts, facts: Facts, proofs: list[tuple[Run, RoleFacts]]
    ) -> Iterator[Recommendation]:
        every = [known.peak for _, known in facts.find_role(name) if known.peak is not None]
        if any(known.out_of_memory or known.growing for _, known in facts.find_role(name)):
            return
        highest, lowest = max(every), min(known.peak or 0 for _, known in proofs)
        new = round_memory(self.limits["headroom"] * highest + (highest - lowest) + self.limits["reserve"])
        less = now.memory - new
        if less < self.limits["least"] or less < self.limits["share"] * now.memory:
            return
        hours = savings_range(gigabytes(less) * known.held for _, known in proofs)
        yield self.recommend(
            grade_share(less / now.memory, 0.5, 0.75),
            f"each task of {name} requests {format_amount(now.memory, Unit.BYTES)} of memory, and none ever used more "
            f"than {format_amount(highest, Unit.BYTES)}",
            (
                Evidence("memory requested", now.memory, Unit.BYTES),
                Evidence("highest peak of any task", highest, Unit.BYTES),
                Evidence("lowest peak of the runs", lowest, Unit.BYTES),
                Evidence("tasks", now.tasks),
            ),
            role=name,
            saving=Saving(gb_hours=hours),
            patch=change_role_setting(name, "memory", format_exact_size(now.memory), format_exact_size(new)),
            hint=f"Based on {format_count(len(proofs), 'run')}; a run with more data may need more.",
            runs=len(proofs),
        )


def _is_known(known: RoleFacts) -> bool:
    """Return True if the peak of each task is known, and memory was not growing at the end."""
    return known.peak is not None and known.counted >= known.tasks and known.growing is False


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
        highest = max((known.resident or 0 for known in near), default=0)
        new = round_memory(max(now.memory, highest) * self.limits["much_more" if died else "more"])
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
            patch=change_role_setting(name, "memory", format_exact_size(now.memory), format_exact_size(new)),
            runs=max(1, len(near)),
        )
