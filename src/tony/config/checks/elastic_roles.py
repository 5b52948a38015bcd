"""Elastic roles, which may run with fewer tasks than requested: `instances = { min = 2, max = 8 }`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tony.config.checks.hints import Note
from tony.config.files.layers import Layer
from tony.config.table.converted_settings import ValueTable
from tony.config.value_conversion import ELASTIC_EXAMPLE
from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode, RoleKind

if TYPE_CHECKING:
    from tony.frameworks.base import Framework

_EXAMPLE = f"instances = {ELASTIC_EXAMPLE}"


def sizes(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the fields of a Role that a table of `min` and `max` sets. If equal, the size is fixed."""
    if "min" not in values or "max" not in values:
        return {}
    low, high = values["min"], values["max"]
    return {"instances": high} | ({"min_instances": low} if low < high else {})


def check_sizes(spec: JobSpec, sheet: ValueTable) -> None:
    """Report incomplete tables, and roles that cannot be elastic."""
    for name in sheet.roles:
        place = ("roles", name, "instances")
        if place not in sheet.tables:
            continue
        given = sheet.below(place)
        missing = [word for word in ("min", "max") if word not in given]
        if missing:
            if not any((*place, word) in sheet.broken for word in missing):
                words = "`min` and `max` are" if len(missing) > 1 else f"`{missing[0]}` is"
                sheet.add_error(place, f"{words} missing. Write {_EXAMPLE}, or one number.")
        elif given["min"] > given["max"]:
            message = f"min is greater than max ({given['max']}). Write the smaller number as min."
            sheet.add_error((*place, "min"), message)
        elif given["min"] < given["max"]:
            why = _why_not_elastic(spec, name)
            if why:
                sheet.add_error((*place, "min"), f"{why} Write a fixed number: instances = {given['max']}.")


def unsupported_elastic_roles(spec: JobSpec, adapter: Framework) -> Iterator[Problem]:
    """Yield the elastic roles that the framework of the job does not support."""
    for name in spec.elastic_roles:
        why = adapter.elastic(spec, name)
        if why:
            role = spec.roles[name]
            message = (
                f'with framework = "{spec.framework}", {name} cannot be elastic: '
                f"{why}. Write a fixed number: instances = {role.instances}."
            )
            yield Problem(key=f"roles.{name}.instances.min", value=str(role.min_instances), message=message)


def idle_waits(spec: JobSpec, sheet: ValueTable, own: Sequence[Layer]) -> Iterator[Note]:
    """Yield a note for each wait that the job sets although no role is elastic."""
    if spec.elastic_roles:
        return
    for name in ("gang_wait", "shrink_after"):
        found = sheet.found.get((name,))
        if found and any(found.layer is layer for layer in own):
            message = f"no role is elastic ({_EXAMPLE}), so this has no effect."
            yield Note(key=name, message=message, source=found.layer.where((name,)))


def _why_not_elastic(spec: JobSpec, name: str) -> str:
    """Return why a role cannot be elastic with any framework; empty if it can."""
    kind = spec.roles[name].kind
    if kind is RoleKind.SETUP:
        return "the tasks of a setup role start independently of each other, not as a gang."
    if kind is RoleKind.SIDECAR:
        return "the job does not wait for sidecars, so it starts without missing ones anyway."
    if spec.distributed_mode is DistributedMode.FCFS:
        return 'with distributed_mode = "fcfs" the tasks start independently of each other, not as a gang.'
    return ""
