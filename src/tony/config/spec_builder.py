"""Builds the JobSpec from the table of values. Missing or invalid values keep their default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tony.config.checks.cross_checks import sizes
from tony.config.checks.start_order import conditions
from tony.config.table.converted_settings import ValueTable
from tony.config.table.schema_tree import find
from tony.config.table.settings_table import Key
from tony.model.job_spec import JobSpec, Notify, Resources, Role, TimeoutAfter, Timeouts
from tony.model.setting_choices import OnTimeout

_NESTED: Mapping[str, type[Timeouts | Resources | Notify]] = {
    "timeouts": Timeouts,
    "resources": Resources,
    "notify": Notify,
}


def build(value_table: ValueTable, default_name: str) -> JobSpec:
    """Return the job with all defaults filled in."""
    fields = _fields(value_table, ()) | _fields(value_table, ("notify",))
    fields.setdefault("name", default_name)
    scheduler = value_table.value(("scheduler", "name")) or JobSpec().scheduler
    return JobSpec(
        **fields,
        env=value_table.list_children(("env",)),
        container_env=value_table.list_children(("container_env",)),
        params=value_table.list_children(("params",)),
        groups=value_table.list_children(("groups",)),
        roles={name: _role(value_table, name) for name in value_table.roles},
        scheduler=scheduler,
        scheduler_settings=value_table.list_children(("scheduler", scheduler)),
    )


def _role(value_table: ValueTable, name: str) -> Role:
    place = ("roles", name)
    fields = _fields(value_table, place)
    others = value_table.list_children((*place, "resources"))
    if others:
        fields["resources"] = replace(fields.get("resources", Resources()), others=others)
    fields |= sizes(value_table.list_children((*place, "instances")))
    return Role(
        **fields,
        env=value_table.list_children((*place, "env")),
        exports=value_table.list_children((*place, "exports")),
        after={other: condition for _, _, other, condition in conditions(value_table, name)},
        timeout_after=_timeout_after(value_table.list_children((*place, "timeout_after"))),
        scheduler_settings={
            key[-1]: values
            for key, values in value_table.children.items()
            if key[:-1] == place and (node := find(key)) and node.is_scheduler
        },
    )


def _timeout_after(values: Mapping[str, Any]) -> TimeoutAfter | None:
    if "group" not in values or "limit" not in values:
        return None
    on_timeout = values.get("on_timeout", OnTimeout.FAIL)
    return TimeoutAfter(group=values["group"], limit=values["limit"], on_timeout=on_timeout)


def _fields(value_table: ValueTable, place: Key) -> dict[str, Any]:
    """Return field -> value for every setting directly below `place` that sets a field."""
    fields: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in value_table.list_children(place).items():
        node = find((*place, name))
        if node and node.setting and node.setting.attribute:
            outer, _, inner = node.setting.attribute.rpartition(".")
            (nested.setdefault(outer, {}) if outer else fields)[inner] = value
    return fields | {outer: _NESTED[outer](**values) for outer, values in nested.items()}
