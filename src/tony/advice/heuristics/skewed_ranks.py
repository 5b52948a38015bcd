"""Tasks of a role that are slower, or have more work, than the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run, gigabytes
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.model.setting_choices import RoleKind
from tony.units import Unit, format_number


class SkewedRanks(Heuristic):
    """Reports the slow task, and whether its host or its share of the work is the reason."""

    name = "skewed-ranks"
    title = "One task holds up the others"
    thresholds = (
        Threshold(
            "slower",
            1.25,
            Unit.TIMES,
            "the median time per step of the others, or the run time of the next slowest",
        ),
        Threshold("tasks", 3, Unit.COUNT, "minimum number of tasks with known times"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs"),
        Threshold("seconds", 300.0, Unit.SECONDS, "minimum run time of its programs in each of them"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            if now.kind in (RoleKind.SIDECAR, RoleKind.SETUP, RoleKind.UNTRACKED):
                continue
            found = [
                (run, known, slow)
                for run, known in facts.find_role(name)
                if known.longest >= self.limits["seconds"] and run.succeeded and (slow := self._find_slowest(known))
            ]
            if len(found) >= self.limits["runs"] and found[0][0] is facts.run:
                yield self._build_recommendation(name, found)

    def _find_slowest(self, known: RoleFacts) -> tuple[str, float, str] | None:
        """Return task, factor and criterion of the slowest task; None if none stands out."""
        for times, what in ((known.steps, "seconds per step"), (known.ran, "run time")):
            if len(times) < self.limits["tasks"] or len(times) < known.tasks:
                continue
            *others, (task, most) = sorted(times.items(), key=lambda item: item[1])
            # All wait for the last task at the end: it is an outlier only if the second to last was much faster.
            reference = statistics.median(value for _, value in others) if times is known.steps else others[-1][1]
            if reference > 0 and most >= self.limits["slower"] * reference:
                return task, most / reference, what
        return None

    def _build_recommendation(
        self, name: str, found: list[tuple[Run, RoleFacts, tuple[str, float, str]]]
    ) -> Recommendation:
        _, known, (task, times, what) = found[0]
        tasks = {slow[0] for _, _, slow in found}
        hosts = {each.hosts.get(slow[0], "") for _, each, slow in found} - {""}
        other_hosts = {host for _, each, slow in found for name, host in each.hosts.items() if name != slow[0]}
        if len(tasks) == 1 and len(hosts) != 1:
            why = f"It is always {task}: it seems to have more work."
        elif len(hosts) == 1 and not hosts & other_hosts:
            why = f"It is always on host {hosts.copy().pop()}: that machine seems to be slow."
        else:
            why = "Compare the metrics of its tasks on the job's page."
        lost = [(times - 1) / times * each.held for _, each, (_, times, _) in found]
        return self.recommend(
            Severity.HIGH if times >= 2 else Severity.MEDIUM,
            f"{task} takes {format_number(times)} times as long as the other tasks of {name} ({what})",
            (
                Evidence(f"{what}: {task}, against the others", times, Unit.TIMES),
                Evidence("tasks", known.tasks),
                Evidence("runs with such a slow task", len(found)),
            ),
            role=name,
            saving=Saving(
                gpu_hours=savings_range([0.0, *(hours * known.gpus for hours in lost)]),
                gb_hours=savings_range([0.0, *(hours * gigabytes(known.memory) for hours in lost)]),
            ),
            hint=why,
            runs=len(found),
        )
