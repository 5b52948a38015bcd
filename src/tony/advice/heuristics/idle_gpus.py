"""GPUs that are never used."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Device, Facts, RoleFacts, Run, devices
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.recommendation import Evidence, Recommendation, Saving, SettingChange, Severity, savings_range
from tony.model.job_spec import MIB
from tony.units import Unit, format_count


class IdleGpus(Heuristic):
    """Recommends the number of GPUs that are used."""

    name = "gpus-idle"
    title = "GPUs that are never used"
    thresholds = (
        *PROOF,
        Threshold("used", 0.01, Unit.SHARE, "minimum utilisation in any sample: then the GPU counts as used"),
        Threshold("memory", 64 * MIB, Unit.BYTES, "minimum memory in use: then a program has opened the GPU"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        for name, now in facts.run.roles.items():
            proofs = self.find_proofs(facts, name, lambda known: bool(devices(known))) if now.gpus else []
            every = [device for _, known in proofs for device in devices(known) or ()]
            if not every:
                continue
            idle = set(range(now.gpus)) - {device.number for device in every if device.util.most >= self.limits["used"]}
            if idle:
                yield self._build_recommendation(name, now, proofs, every, idle)

    def _build_recommendation(
        self, name: str, now: RoleFacts, proofs: list[tuple[Run, RoleFacts]], every: list[Device], idle: set[int]
    ) -> Recommendation:
        left = now.gpus - len(idle)
        untouched = all(device.opened < self.limits["memory"] for device in every if device.number in idle)
        last = idle == set(range(left, now.gpus))
        patch: tuple[SettingChange, ...] = ()
        hint = "The program opens them: configure it to use fewer before the job requests fewer."
        if not left:
            hint = "If the program needs no GPU, set gpus = 0."
        elif untouched and last and now.procs <= left:
            patch, hint = change_role_setting(name, "gpus", str(now.gpus), str(left)), ""
        elif untouched and not last:
            hint = "They are not the last ones of each task: let the program use the first ones, then request fewer."
        return self.recommend(
            Severity.HIGH,
            f"{len(idle)} of the {format_count(now.gpus, 'GPU')} of each task of {name} never computed anything",
            (
                Evidence("GPUs requested", now.gpus),
                Evidence("GPUs used", left),
                Evidence(
                    "highest utilisation of the others",
                    max(device.util.most for device in every if device.number in idle),
                    Unit.SHARE,
                ),
                Evidence("tasks", now.tasks),
            ),
            role=name,
            saving=Saving(gpu_hours=savings_range(len(idle) * known.held for _, known in proofs)),
            patch=patch,
            hint=hint,
            runs=len(proofs),
        )
