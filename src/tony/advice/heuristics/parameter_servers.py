"""More parameter servers than necessary."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run, gigabytes
from tony.advice.heuristic import PROOF, Heuristic, Threshold
from tony.advice.recommendation import Evidence, Recommendation, Saving, SettingChange, Severity, savings_range
from tony.units import Unit, format_amount

#: Names of the role in jobs of TensorFlow and MXNet.
_ROLES = ("ps", "server")


class ParameterServers(Heuristic):
    """Recommends fewer, but at least half as many."""

    name = "parameter-servers"
    title = "Too many parameter servers"
    thresholds = (
        *PROOF,
        Threshold("cpu", 0.3, Unit.SHARE, "maximum share of its cores that each would then use"),
        Threshold("memory", 0.5, Unit.SHARE, "maximum share of its memory that each would then use"),
        Threshold(
            "network", 50e6, Unit.BYTES_PER_SECOND, "maximum network traffic of each host, sent and received on average"
        ),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name in _ROLES:
            now = facts.run.roles.get(name)
            if now is None or now.tasks < 2 or facts.run.spec.framework not in ("tensorflow", "mxnet"):
                continue
            if facts.run.spec.effective_roles[name].min_instances is not None:
                continue
            proofs = self.find_proofs(facts, name, _is_known)
            if not proofs:
                continue
            fewer = max(math.ceil(now.tasks / 2), *(self._count_needed(now, known) for _, known in proofs))
            if fewer < now.tasks:
                yield self._build_recommendation(name, now, proofs, fewer)

    def _count_needed(self, now: RoleFacts, known: RoleFacts) -> int:
        """Return how many would be enough."""
        network = sum(sum(known.list_means(way).values()) for way in ("net-in", "net-out"))
        cores = sum(task["cpu"].most for task in known.used.values())
        memory = (known.peak or 0) * known.tasks
        return max(
            1,
            math.ceil(cores / (self.limits["cpu"] * now.vcores)),
            math.ceil(memory / (self.limits["memory"] * now.memory)),
            math.ceil(network / self.limits["network"]),
        )

    def _build_recommendation(
        self, name: str, now: RoleFacts, proofs: list[tuple[Run, RoleFacts]], fewer: int
    ) -> Recommendation:
        cores = max(sum(known.list_means("cpu").values()) for _, known in proofs)
        peak = max(known.peak or 0 for _, known in proofs)
        less = now.tasks - fewer
        return self.recommend(
            Severity.MEDIUM,
            f"{now.tasks} tasks of {name} use {format_amount(cores, Unit.CORES)} in total, and each at most "
            f"{format_amount(peak, Unit.BYTES)} of memory: {fewer} would be enough",
            (
                Evidence("tasks", now.tasks),
                Evidence("cores used in total, on average", cores, Unit.CORES),
                Evidence("cores requested by each", now.vcores, Unit.CORES),
                Evidence("highest memory peak of any task", peak, Unit.BYTES),
                Evidence("memory requested by each", now.memory, Unit.BYTES),
            ),
            role=name,
            saving=Saving(
                gb_hours=savings_range(gigabytes(now.memory) * known.held * less / now.tasks for _, known in proofs),
                core_hours=savings_range(now.vcores * known.held * less / now.tasks for _, known in proofs),
            ),
            patch=(SettingChange(key=f"roles.{name}.instances", old=str(now.tasks), new=str(fewer)),),
            runs=len(proofs),
        )


def _is_known(known: RoleFacts) -> bool:
    """Return True if CPU, memory and network metrics of each task are known."""
    if not known.wholly_measured or known.peak is None or known.counted < known.tasks:
        return False
    return all(len(known.list_means(way)) >= known.tasks for way in ("net-in", "net-out"))
