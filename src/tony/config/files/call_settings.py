"""The settings of a Python call as a layer: a mapping like a job file, or a JobSpec.

Only the fields of a JobSpec that differ from their defaults count as set, so that defaults of a site apply.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from tony.config.table.layers import Canonical, Layer, name_rules, put
from tony.config.table.settings_table import SETTINGS, Key, Kind, Setting
from tony.model.job_spec import JobSpec, MemoryGrowth, Notify, Resources, Role, TimeoutAfter, Timeouts
from tony.model.own_rule import OwnRule

#: Source of the values of a call.
SOURCE = "argument"


def from_call(given: Mapping[str, Any] | JobSpec, base: Path, source: str | Callable[[Key], str] = SOURCE) -> Layer:
    """Return the layer of a Python call.

    A mapping may be nested or have dotted keys; its values may be paths, enum members, tuples, Roles.

    Args:
        source: the source of all values, or of each.
    """
    values, _ = name_rules(from_spec(given) if isinstance(given, JobSpec) else _table(given))
    return Layer(values=values, where=source if callable(source) else lambda key: source, base=base)


def from_spec(spec: JobSpec, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return a JobSpec as nested tables of canonical values.

    Args:
        with_defaults: include defaults other than None, and timeouts that are off.
    """
    values = _fields(spec, _JOB_SETTINGS, with_defaults)
    for name in ("env", "container_env", "params"):
        _add(values, (name,), _convert_items(getattr(spec, name)))
    _add(values, ("groups",), _convert_plain(spec.groups))
    _add(values, ("diagnosis", "rules"), _rules(spec.diagnosis_rules))
    roles = spec.roles
    _add(values, ("roles",), _roles(roles, with_defaults) if isinstance(roles, Mapping) else roles)
    if spec.scheduler_settings:
        put(values, ("scheduler", str(spec.scheduler)), _convert_items(spec.scheduler_settings))
    return values


def _rules(rules: Any) -> Any:
    """Return rules as tables by name; anything else as it is, to be reported as an error later."""
    if not all(isinstance(rule, OwnRule) for rule in rules):
        return _convert_plain(rules)
    return {
        rule.name: {
            "pattern": rule.pattern,
            "class": rule.kind.value,
            "meaning": rule.meaning.value,
            "retry": rule.retry,
            "advice": rule.advice,
        }
        for rule in rules
    }


def _roles(roles: Mapping[str, Any], with_defaults: bool) -> dict[str, Any]:
    return {
        str(name): _role(role, with_defaults) if isinstance(role, Role) else _convert_plain(role)
        for name, role in roles.items()
    }


def _role(role: Role, with_defaults: bool = False) -> dict[str, Any]:
    values = _fields(role, _ROLE_SETTINGS, with_defaults)
    if role.min_instances is not None:
        values["instances"] = {
            "min": _convert_plain(Canonical(role.min_instances)),
            "max": _convert_plain(Canonical(role.instances)),
        }
    _add(values, ("env",), _convert_items(role.env))
    _add(values, ("exports",), _convert_items(role.exports))
    if isinstance(role.resources, Resources):
        _add(values, ("resources",), _convert_items(role.resources.others))
    for scheduler, settings in role.scheduler_settings.items():
        put(values, (str(scheduler),), _convert_items(settings))
    _add(values, ("after",), _convert_after(role.after))
    growth: Any = role.memory_on_oom
    if isinstance(growth, MemoryGrowth):
        growth_values = {"factor": growth.factor, "up_to": growth.up_to}
        values["memory_on_oom"] = {
            name: _convert_plain(Canonical(value)) for name, value in growth_values.items() if value is not None
        }
    elif growth is not None:
        values["memory_on_oom"] = _convert_plain(growth)
    limit: Any = role.timeout_after
    if isinstance(limit, TimeoutAfter):
        limit_values = {"group": limit.group, "limit": Canonical(limit.limit), "on_timeout": limit.on_timeout}
        values["timeout_after"] = {name: _convert_plain(value) for name, value in limit_values.items()}
    elif limit is not None:
        values["timeout_after"] = _convert_plain(limit)
    return values


def _fields(owner: JobSpec | Role, settings: tuple[Setting, ...], with_defaults: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    holder: Any
    own_part = 2 if isinstance(owner, Role) else 0
    for setting in settings:
        outer, _, inner = setting.attribute.rpartition(".")
        holder = getattr(owner, outer) if outer else owner
        if outer and not isinstance(holder, Resources | Timeouts | Notify | MemoryGrowth):
            values[outer] = _convert_plain(holder)  # no such key: reported as an error later
            continue
        value = getattr(holder, inner)
        default = setting.default
        is_default = type(value) is type(default) and value == default
        if not is_default or (with_defaults and (default is not None or setting.kind in (Kind.TIMEOUT, Kind.WAIT))):
            put(values, setting.path[own_part:], _convert_plain(Canonical(value)))
    return values


def _convert_after(after: Any) -> Any:
    if not isinstance(after, Mapping) or not all(isinstance(name, str) for name in after):
        return _convert_plain(after)
    by_condition: dict[str, list[str]] = {}
    for name, condition in after.items():
        by_condition.setdefault(str(condition.value if isinstance(condition, Enum) else condition), []).append(name)
    return by_condition


def _add(values: dict[str, Any], key: tuple[str, ...], inner: Any) -> None:
    if not isinstance(inner, Mapping | list | tuple) or inner:
        put(values, key, inner)


def _convert_items(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return _convert_plain(values)
    return {str(name): _convert_plain(Canonical(value)) for name, value in values.items()}


def _table(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        put(values, tuple(str(name).split(".")), _convert_plain(value))
    return values


def _convert_plain(value: Any) -> Any:
    """Convert a Python value to what a job file has."""
    if isinstance(value, Canonical):
        inner = _convert_plain(value.value)
        return inner if isinstance(inner, str | list | dict) else Canonical(inner)
    if isinstance(value, Role):
        return _role(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return {str(name): _convert_plain(inner) for name, inner in value.items()}
    return [_convert_plain(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


_JOB_SETTINGS = tuple(s for s in SETTINGS if s.attribute and s.path[0] != "roles")
_ROLE_SETTINGS = tuple(s for s in SETTINGS if s.attribute and s.path[0] == "roles")
