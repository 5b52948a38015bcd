"""GPUs that nobody uses."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, RoleFacts, Run
from tony.advice.gpus import Device, devices
from tony.advice.heuristic import PROOF, Heuristic, Threshold, of_role
from tony.advice.number_format import count
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, SettingChange, Severity, savings_range
from tony.model.job_spec import MIB


class GpusIdle(Heuristic):
    """Proposes as many as are used."""

    name = "gpus-idle"
    title = "GPUs that nobody uses"
    about = """\
Devices that were granted to the role's tasks never computed anything. They are the dearest part of most machines,
and nobody else can have them meanwhile.

As many are proposed as were ever used, if it is certain that the program does without the others: they are the last
ones of each task, their memory never held anything of a program's, and the program does not start one process for
each. Else only the finding is told: a program that opens a device and leaves it alone would fail without it, and so
would one that only asks whether there is any. So none at all is never proposed; if your program does without, write
`gpus = 0` yourself.

A device that computes now and then is no matter of this page: see [steps that wait for data](data-bound.md)."""
    thresholds = (
        *PROOF,
        Threshold("used", 0.01, Measure.SHARE, "of any measurement in which the device computed: then it is used"),
        Threshold("memory", 64 * MIB, Measure.BYTES, "of its memory in use: then a program has opened it"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Role by role."""
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
        hint = "The program opens them: it must be told to do without before the job can ask for fewer."
        if not left:
            hint = "If the program does without any, let the role ask for none."
        elif untouched and last and now.procs <= left:
            patch, hint = of_role(name, "gpus", str(now.gpus), str(left)), ""
        elif untouched and not last:
            hint = "They are not the last ones of each task: have the program use the first ones, then ask for fewer."
        return self.finding(
            Severity.HIGH,
            f"{len(idle)} of the {count(now.gpus, 'GPU')} of each task of {name} never computed anything",
            (
                Evidence("GPUs asked", now.gpus),
                Evidence("GPUs that were ever used", left),
                Evidence(
                    "highest use of the others",
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
