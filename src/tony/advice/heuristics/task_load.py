"""Load that is distributed badly over tasks: slow ranks, and more parameter servers than necessary."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run, gigabytes
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.model.setting_choices import RoleKind
from tony.units import Unit, format_amount, format_number


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
            patch=change_role_setting(name, "instances", now.tasks, fewer),
            runs=len(proofs),
        )


def _is_known(known: RoleFacts) -> bool:
    """Return True if CPU, memory and network metrics of each task are known."""
    if not known.wholly_measured or known.peak is None or known.counted < known.tasks:
        return False
    return all(len(known.list_means(way)) >= known.tasks for way in ("net-in", "net-out"))
