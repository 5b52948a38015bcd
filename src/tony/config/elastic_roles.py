"""Roles that may have fewer tasks than they ask for: `instances = { min = 2, max = 8 }`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tony.config.convert import ELASTIC_EXAMPLE
from tony.config.hints import Note
from tony.config.layers import Layer
from tony.config.value_table import ValueTable
from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode, RoleKind

if TYPE_CHECKING:
    from tony.frameworks.base import Framework

_EXAMPLE = f"instances = {ELASTIC_EXAMPLE}"


def sizes(values: Mapping[str, Any]) -> dict[str, int]:
    """The fields of a Role that a table of `min` and `max` fills. Equal ones are a plain number."""
    if "min" not in values or "max" not in values:
        return {}
    low, high = values["min"], values["max"]
    return {"instances": high} | ({"min_instances": low} if low < high else {})


def check_sizes(spec: JobSpec, sheet: ValueTable) -> None:
    """Notes what is missing in such a table, and roles that cannot have one."""
    for name in sheet.roles:
        place = ("roles", name, "instances")
        if place not in sheet.tables:
            continue
        given = sheet.below(place)
        missing = [word for word in ("min", "max") if word not in given]
        if missing:
            if not any((*place, word) in sheet.broken for word in missing):
                words = "`min` and `max` are" if len(missing) > 1 else f"`{missing[0]}` is"
                sheet.blame(place, f"{words} missing. Write {_EXAMPLE}, or one number.")
        elif given["min"] > given["max"]:
            message = f"this is more than max, which is {given['max']}. Write the smaller number as min."
            sheet.blame((*place, "min"), message)
        elif given["min"] < given["max"]:
            why = _cannot(spec, name)
            if why:
                sheet.blame((*place, "min"), f"{why} Write how many it has: instances = {given['max']}.")


def refused(spec: JobSpec, adapter: Framework) -> Iterator[Problem]:
    """Roles of whose tasks the job's framework cannot do without one."""
    for name in spec.elastic_roles:
        why = adapter.elastic(spec, name)
        if why:
            role = spec.roles[name]
            message = (
                f'with framework = "{spec.framework}", {name} cannot have fewer tasks in one session than in another: '
                f"{why}. Write how many it has: instances = {role.instances}."
            )
            yield Problem(key=f"roles.{name}.instances.min", value=str(role.min_instances), message=message)


def idle_waits(spec: JobSpec, sheet: ValueTable, own: Sequence[Layer]) -> Iterator[Note]:
    """Remarks on waits that the job itself sets, and that nothing waits for."""
    if spec.elastic_roles:
        return
    for name in ("gang_wait", "shrink_after"):
        found = sheet.found.get((name,))
        if found and any(found.layer is layer for layer in own):
            message = f"no role may have fewer tasks than it asks for ({_EXAMPLE}), so this has no effect."
            yield Note(key=name, message=message, source=found.layer.where((name,)))


def _cannot(spec: JobSpec, name: str) -> str:
    """Why a role cannot do with fewer tasks, whatever its framework; empty if it can."""
    kind = spec.roles[name].kind
    if kind is RoleKind.SETUP:
        return "each task of a setup role starts by itself, as soon as it can, so there is no gang to go without some."
    if kind is RoleKind.SIDECAR:
        return "nobody waits for a sidecar, so the job starts without those that are missing anyway."
    if spec.distributed_mode is DistributedMode.FCFS:
        return 'with distributed_mode = "fcfs" each task starts by itself, so there is no gang to go without some.'
    return ""
