"""Standalone: exactly one task, without peers."""

from __future__ import annotations

from collections.abc import Sequence

from tony.errors import Problem
from tony.frameworks.adapter_checks import check_one_process
from tony.frameworks.no_framework import NoFramework
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import RoleKind


class Standalone(NoFramework):
    """Adds nothing to the common variables; refuses a job of more than one task."""

    name = "standalone"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        roles = spec.effective_roles.items()
        counts = {name: role.instances for name, role in roles if role.kind is not RoleKind.SETUP}
        total = sum(counts.values())
        problems = check_one_process(spec, self.name)
        if total != 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            message = (
                f"a standalone job has exactly one task, this one has {total} ({listed}). Keep one role with "
                'instances = 1, or set framework = "none".'
            )
            problems.insert(0, Problem(key="framework", value=self.name, message=message))
        return problems
