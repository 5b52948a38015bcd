"""Containers that are allocated long before or after their programs run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tony.advice.facts import Facts, RoleFacts, Run, gigabytes
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.history.goodput import Bucket, GoodputLedger
from tony.model.setting_choices import RoleKind
from tony.units import Unit, format_amount


class StartupOverhead(Heuristic):
    """Reports the setup time; no setting of the job file shortens it."""

    name = "start-up"
    title = "Container setup takes much of the time"
    thresholds = (
        Threshold("share", 0.25, Unit.SHARE, "minimum share of the time for which containers were allocated"),
        Threshold("seconds", 60.0, Unit.SECONDS, "minimum per task, on average"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        if any(role.kind is RoleKind.SETUP for role in facts.run.roles.values()):
            return  # their run time counts as setup
        found = [(run, *setup) for run in facts.runs if run.succeeded and (setup := self._compute_share(run.ledger))]
        if len(found) < self.limits["runs"] or found[0][0] is not facts.run:
            return
        run, share, seconds = found[0]
        yield self.recommend(
            Severity.MEDIUM if share >= 0.5 else Severity.LOW,
            f"container setup takes {format_amount(seconds, Unit.SECONDS)} per task, "
            f"{format_amount(share, Unit.SHARE)} of the time for which its container is allocated",
            (
                Evidence("setup time, per task on average", seconds, Unit.SECONDS),
                Evidence("share of the allocated time", share, Unit.SHARE),
                Evidence("runs with such a share", len(found)),
            ),
            saving=Saving(
                gb_hours=savings_range([0.0, *(_hours(each.ledger.gb_hours) for each, _, _ in found)]),
                gpu_hours=savings_range([0.0, *(_hours(each.ledger.gpu_hours) for each, _, _ in found)]),
                seconds=savings_range([0.0, *(each for _, _, each in found)]),
            ),
            hint=_hint(run),
            runs=len(found),
        )

    def _compute_share(self, ledger: GoodputLedger) -> tuple[float, float] | None:
        """Return the share of setup in the allocated time, and seconds per task; None if below the thresholds."""
        whole = sum(value for task in ledger.tasks for value in task.held.values() if value is not None)
        taken = sum(task.held[Bucket.SET_UP.value] or 0.0 for task in ledger.tasks)
        seconds = taken / max(1, len(ledger.tasks))
        if whole <= 0 or taken < self.limits["share"] * whole or seconds < self.limits["seconds"]:
            return None
        return taken / whole, seconds


def _hours(spent: Mapping[str, float | None]) -> float:
    return spent[Bucket.SET_UP.value] or 0.0


def _hint(run: Run) -> str:
    if run.spec.python and not run.spec.python.startswith("/"):
        return f"Its environment {run.spec.python} is copied to every node; install it on the nodes to avoid that."
    return "Check source, python and files; leave out what programs do not need."


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
