"""GPUs that are never used."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run
from tony.advice.gpus import Device, devices
from tony.advice.heuristic import PROOF, Heuristic, Threshold, change_role_setting
from tony.advice.number_format import count
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, SettingChange, Severity, savings_range
from tony.model.job_spec import MIB


class GpusIdle(Heuristic):
    """Recommends the number of GPUs that are used."""

    name = "gpus-idle"
    title = "Unused GPUs"
    about = """\
GPUs of the role's tasks never computed anything.

The recommendation is the number that was used, if the program certainly does without the others: they are the last
ones of each task, their memory was never used, and the program does not start one process per GPU. Zero is never
recommended, as a program may only check that there is one; if yours needs none, write `gpus = 0`.

For GPUs that compute now and then see [steps that wait for data](data-bound.md)."""
    thresholds = (
        *PROOF,
        Threshold("used", 0.01, Measure.SHARE, "utilisation in any measurement from which a GPU counts as used"),
        Threshold("memory", 64 * MIB, Measure.BYTES, "GPU memory from which a GPU counts as opened"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        for name, now in facts.run.roles.items():
            proofs = self.proofs(facts, name, lambda known: bool(devices(known))) if now.gpus else []
            every = [device for _, known in proofs for device in devices(known) or ()]
            if not every:
                continue
            idle = set(range(now.gpus)) - {device.number for device in every if device.util.most >= self.limits["used"]}
            if idle:
                yield self._found(name, now, proofs, every, idle)

    def _found(
        self, name: str, now: RoleFacts, proofs: list[tuple[Run, RoleFacts]], every: list[Device], idle: set[int]
    ) -> Finding:
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
        return self.finding(
            Severity.HIGH,
            f"{len(idle)} of the {count(now.gpus, 'GPU')} of each task of {name} never computed anything",
            (
                Evidence("GPUs requested", now.gpus),
                Evidence("GPUs used", left),
                Evidence(
                    "highest utilisation of the others",
                    max(device.util.most for device in every if device.number in idle),
                    Measure.SHARE,
                ),
                Evidence("tasks", now.tasks),
            ),
            role=name,
            saving=Saving(gpu_hours=savings_range(len(idle) * known.held for _, known in proofs)),
            patch=patch,
            hint=hint,
            runs=len(proofs),
        )
