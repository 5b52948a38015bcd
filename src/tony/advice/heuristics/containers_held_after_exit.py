"""Containers that are held although their program is over."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, gigabytes
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.number_format import amount
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, Severity, savings_range
from tony.model.states import RoleKind


class IdleAfterEnd(Heuristic):
    """Says who waits for whom; which of the ways is right only the author can know."""

    name = "idle-after-end"
    title = "Containers held after the end of their programs"
    about = """\
Tasks of the role were over long before the job was, and their containers were held all the same: for the next
session, should another task fail.

- A role whose work is done before others begin is one that they come `after`, or of kind `setup`.
- If they end early because they have less to do, share the work out more evenly: [one task holds up the
  others](skewed-ranks.md).
- If they were told to stop and took long, their programs do not end on SIGTERM: `stop_grace` is how long that is
  borne."""
    thresholds = (
        Threshold("share", 0.2, Measure.SHARE, "of the time for which the role's containers were held, at least"),
        Threshold("seconds", 300.0, Measure.SECONDS, "for each task, on average, at least"),
        Threshold("runs", 2, Measure.COUNT, "runs in which that was so, at least"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Role by role."""
        for name, now in facts.run.roles.items():
            found = [known for run, known in facts.of(name) if run.succeeded and self._is_idle(known)]
            if len(found) < self.limits["runs"] or found[0] is not now or now.kind is RoleKind.SETUP:
                continue
            share, seconds = now.idle / now.held, 3600 * now.idle / now.tasks
            yield self.finding(
                Severity.HIGH if now.gpus and share >= 0.4 else Severity.MEDIUM,
                f"containers of {name} were held for {amount(seconds, Measure.SECONDS)} on average after their "
                "programs were over",
                (
                    Evidence("held after the program's end, each task on average", seconds, Measure.SECONDS),
                    Evidence("share of the time for which they are held", share, Measure.SHARE),
                    Evidence("tasks", now.tasks),
                ),
                role=name,
                saving=Saving(
                    gb_hours=savings_range([0.0, *(gigabytes(now.memory) * known.idle for known in found)]),
                    gpu_hours=savings_range([0.0, *(now.gpus * known.idle for known in found)]),
                ),
                hint="Let what needs them run after it, or share its work out more evenly.",
                runs=len(found),
            )

    def _is_idle(self, known: RoleFacts) -> bool:
        return known.held > 0 and (
            known.idle >= self.limits["share"] * known.held
            and 3600 * known.idle >= self.limits["seconds"] * known.tasks
        )
