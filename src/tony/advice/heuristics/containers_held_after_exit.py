"""Containers that stay allocated after their program has exited."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, gigabytes
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.model.setting_choices import RoleKind
from tony.units import Unit, format_amount


class ContainersHeldAfterExit(Heuristic):
    """Reports idle containers; only the author of the job can choose the remedy."""

    name = "idle-after-end"
    title = "Containers allocated after their programs have exited"
    thresholds = (
        Threshold("share", 0.2, Unit.SHARE, "minimum share of the time for which the role's containers were allocated"),
        Threshold("seconds", 300.0, Unit.SECONDS, "minimum per task, on average"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            found = [known for run, known in facts.find_role(name) if run.succeeded and self._is_idle(known)]
            if len(found) < self.limits["runs"] or found[0] is not now or now.kind is RoleKind.SETUP:
                continue
            share, seconds = now.idle / now.held, 3600 * now.idle / now.tasks
            yield self.recommend(
                Severity.HIGH if now.gpus and share >= 0.4 else Severity.MEDIUM,
                f"containers of {name} stayed allocated for {format_amount(seconds, Unit.SECONDS)} on average after "
                "their programs had exited",
                (
                    Evidence("allocated after the program's exit, per task on average", seconds, Unit.SECONDS),
                    Evidence("share of the allocated time", share, Unit.SHARE),
                    Evidence("tasks", now.tasks),
                ),
                role=name,
                saving=Saving(
                    gb_hours=savings_range([0.0, *(gigabytes(now.memory) * known.idle for known in found)]),
                    gpu_hours=savings_range([0.0, *(now.gpus * known.idle for known in found)]),
                ),
                hint="Start roles that need its results `after` it, or distribute its work more evenly.",
                runs=len(found),
            )

    def _is_idle(self, known: RoleFacts) -> bool:
        return known.held > 0 and (
            known.idle >= self.limits["share"] * known.held
            and 3600 * known.idle >= self.limits["seconds"] * known.tasks
        )
