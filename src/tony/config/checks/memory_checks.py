"""Checks of `memory_on_oom`: how far the memory of a role is raised after one of its tasks was killed for memory."""

from __future__ import annotations

from tony.config.table.converted_settings import ValueTable
from tony.config.table.settings_table import Key
from tony.model.job_spec import JobSpec
from tony.units import format_exact_size

_EXAMPLE = 'memory_on_oom = { factor = 1.5, up_to = "8g" }'


def check_memory_growth(spec: JobSpec, values: ValueTable) -> None:
    """Report a factor without a limit, and limits of roles that leave nothing to raise."""
    limited = [name for name in spec.effective_roles if spec.memory_growth_of(name).up_to is not None]
    if not limited:
        _report_missing_limit(values, ("memory_on_oom",))
    for name in values.roles:
        place = ("roles", name, "memory_on_oom")
        if name not in limited:
            _report_missing_limit(values, place)
        role, up_to = spec.roles[name], values.value((*place, "up_to"))
        if up_to is not None and up_to <= role.resources.memory and ("roles", name, "memory") not in values.broken:
            has = format_exact_size(role.resources.memory)
            values.add_error((*place, "up_to"), f"the role has {has} of memory from the start. Write more than that.")


def _report_missing_limit(values: ValueTable, place: Key) -> None:
    if (*place, "factor") in values.found and (*place, "up_to") not in values.broken:
        values.add_error(place, f"`up_to` is missing, so the memory is never raised. Write {_EXAMPLE}.")
