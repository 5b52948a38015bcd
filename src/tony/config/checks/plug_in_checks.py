"""The plug-ins of a job: whether its framework and scheduler exist, and the rules of the framework for its roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tony.config.table.converted_settings import ValueTable
from tony.config.table.layers import quote
from tony.errors import Problem
from tony.frameworks.registry import home_of, load, names
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import RestartScope, RoleKind
from tony.name_suggestions import describe_unknown
from tony.schedulers import registry as schedulers

if TYPE_CHECKING:
    from tony.frameworks.framework_interface import Framework


def check_plugin_names(values: ValueTable) -> bool:
    """Report an unknown framework or scheduler; return True if the framework is known."""
    scheduler = values.value(("scheduler", "name"))
    if (
        scheduler is not None
        and scheduler not in schedulers.list_built_in_names()
        and scheduler not in schedulers.names()
    ):
        values.add_error(("scheduler", "name"), describe_unknown("scheduler", scheduler, schedulers.names()))
    framework = values.value(("framework",))
    if framework is None or _has_framework(framework):
        return True
    values.add_error(("framework",), describe_unknown("framework", framework, names()))
    return False


def _has_framework(name: str) -> bool:
    try:
        home_of(name)
    except LookupError:
        return False
    return True


def with_default_kinds(spec: JobSpec, values: ValueTable) -> JobSpec:
    """Return the job with the kinds that its framework gives to roles whose kind is not set."""
    adapter = _load_adapter(spec)
    if isinstance(adapter, Problem):
        return spec
    serving = adapter.find_serving_roles(spec.roles)
    changed = {
        name: replace(role, kind=RoleKind.UNTRACKED)
        for name, role in spec.roles.items()
        if name in serving and ("roles", name, "kind") not in values.found
    }
    return replace(spec, roles={**spec.roles, **changed}) if changed else spec


def framework_errors(spec: JobSpec) -> Sequence[Problem]:
    """Return the errors that the framework adapter finds."""
    adapter = _load_adapter(spec)
    if isinstance(adapter, Problem):
        return [adapter]
    return [*adapter.validate(spec), *_scopes(spec, adapter), *_sizes(spec, adapter)]


def _load_adapter(spec: JobSpec) -> Framework | Problem:
    home = home_of(spec.framework)
    try:
        return load(home)
    except (ImportError, AttributeError, TypeError, SyntaxError, ValueError) as error:
        message = f"cannot load the plug-in {home}: {type(error).__name__}: {error}"
        return Problem(key="framework", value=quote(spec.framework), message=message)


def _sizes(spec: JobSpec, adapter: Framework) -> Iterator[Problem]:
    """Yield the elastic roles that the framework of the job does not support."""
    for name in spec.elastic_roles:
        why = adapter.check_elastic(spec, name)
        if why:
            role = spec.roles[name]
            message = (
                f'with framework = "{spec.framework}", {name} cannot be elastic: '
                f"{why}. Write a fixed number: instances = {role.instances}."
            )
            yield Problem(key=f"roles.{name}.instances.min", value=str(role.min_instances), message=message)


def _scopes(spec: JobSpec, adapter: Framework) -> Iterator[Problem]:
    """Yield roles with `restart = "task"` whose tasks cannot restart alone."""
    for name, role in spec.roles.items():
        why = adapter.check_lone_restart(spec, name) if role.restart is RestartScope.TASK else None
        if why:
            message = (
                f'with framework = "{spec.framework}", a task of {name} cannot restart alone: {why}. Write '
                'restart = "session", or leave it out: then the whole gang restarts.'
            )
            yield Problem(key=f"roles.{name}.restart", value=quote(role.restart.value), message=message)
