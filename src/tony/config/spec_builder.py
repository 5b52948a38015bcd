"""Builds the JobSpec from the table of values. Missing or invalid values keep their default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tony.config.checks.cross_checks import sizes
from tony.config.checks.start_order import iterate_conditions
from tony.config.table.converted_settings import ValueTable
from tony.config.table.schema_tree import find
from tony.config.table.settings_table import Key
from tony.model.job_spec import JobSpec, MemoryGrowth, Notify, Resources, Role, TimeoutAfter, Timeouts
from tony.model.own_rule import OwnRule
from tony.model.setting_choices import OnTimeout

_NESTED: Mapping[str, type[Timeouts | Resources | Notify | MemoryGrowth]] = {
    "timeouts": Timeouts,
    "resources": Resources,
    "notify": Notify,
    "memory_on_oom": MemoryGrowth,
}


def build(values: ValueTable, default_name: str) -> JobSpec:
    """Return the job with all defaults filled in."""
    fields = _fields(values, ()) | _fields(values, ("notify",)) | _fields(values, ("memory_on_oom",))
    fields.setdefault("name", default_name)
    scheduler = values.value(("scheduler", "name")) or JobSpec().scheduler
    return JobSpec(
        **fields,
        env=values.list_children(("env",)),
        container_env=values.list_children(("container_env",)),
        params=values.list_children(("params",)),
        groups=values.list_children(("groups",)),
        roles={name: _role(values, name) for name in values.roles},
        diagnosis_rules=tuple(_build_own_rules(values)),
        scheduler=scheduler,
        scheduler_settings=values.list_children(("scheduler", scheduler)),
    )


def _role(values: ValueTable, name: str) -> Role:
    place = ("roles", name)
    fields = _fields(values, place)
    others = values.list_children((*place, "resources"))
    if others:
        fields["resources"] = replace(fields.get("resources", Resources()), others=others)
    fields |= sizes(values.list_children((*place, "instances")))
    return Role(
        **fields,
        env=values.list_children((*place, "env")),
        exports=values.list_children((*place, "exports")),
        after={other: condition for _, _, other, condition in iterate_conditions(values, name)},
        memory_on_oom=_memory_growth(values, place),
        timeout_after=_timeout_after(values.list_children((*place, "timeout_after"))),
        scheduler_settings={
            key[-1]: own
            for key, own in values.children.items()
            if key[:-1] == place and (node := find(key)) and node.is_scheduler
        },
    )


def _build_own_rules(values: ValueTable) -> Iterator[OwnRule]:
    """Yield the rules that have all that a rule needs; the checks report the others."""
    for name in values.list_rules():
        given = values.list_children(("diagnosis", "rules", name))
        fields = {"kind" if key == "class" else key: value for key, value in given.items()}
        if "pattern" in fields and "kind" in fields:
            yield OwnRule(name=name, **fields)


def _memory_growth(values: ValueTable, place: Key) -> MemoryGrowth | None:
    """Return the growth of a role that has settings of its own; what it does not set is as in the job."""
    own = values.list_children((*place, "memory_on_oom"))
    return MemoryGrowth(**{**values.list_children(("memory_on_oom",)), **own}) if own else None


def _timeout_after(values: Mapping[str, Any]) -> TimeoutAfter | None:
    if "group" not in values or "limit" not in values:
        return None
    on_timeout = values.get("on_timeout", OnTimeout.FAIL)
    return TimeoutAfter(group=values["group"], limit=values["limit"], on_timeout=on_timeout)


def _fields(values: ValueTable, place: Key) -> dict[str, Any]:
    """Return field -> value for every setting directly below `place` that sets a field."""
    fields: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.list_children(place).items():
        attribute = values.found[(*place, name)].setting.attribute
        if attribute:
            outer, _, inner = attribute.rpartition(".")
            (nested.setdefault(outer, {}) if outer else fields)[inner] = value
    return fields | {outer: _NESTED[outer](**values) for outer, values in nested.items()}
