"""Rules of the framework of a job: the kinds that it gives to roles, and the errors that its adapter finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tony.config.checks.cross_checks import check_elastic_roles
from tony.config.checks.hints import Note
from tony.config.files.layers import quote
from tony.config.table.converted_settings import ValueTable
from tony.errors import Problem
from tony.frameworks.registry import home_of, load
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import RestartScope, RoleKind

if TYPE_CHECKING:
    from tony.frameworks.base import Framework


def with_default_kinds(spec: JobSpec, value_table: ValueTable) -> JobSpec:
    """Return the job with the kinds that its framework gives to roles whose kind is not set."""
    adapter = _load_adapter(spec)
    if isinstance(adapter, Problem):
        return spec
    serving = adapter.find_serving_roles(spec.roles)
    changed = {
        name: replace(role, kind=RoleKind.UNTRACKED)
        for name, role in spec.roles.items()
        if name in serving and ("roles", name, "kind") not in value_table.found
    }
    return replace(spec, roles={**spec.roles, **changed}) if changed else spec


def default_kind_source(framework: str) -> str:
    """Return where the kind of a role was set if its framework gave it."""
    return f'default of framework "{framework}"'


def default_kind_notes(spec: JobSpec, sources: Mapping[str, str]) -> Iterator[Note]:
    """Yield a note that names the roles to which the framework gave their kind."""
    source = default_kind_source(spec.framework)
    names = [name for name in spec.roles if sources.get(f"roles.{name}.kind") == source]
    if names:
        roles, they = ("role", "it serves") if len(names) == 1 else ("roles", "they serve")
        yield Note(
            key="",
            message=f'{roles} {" and ".join(names)}: kind = "untracked" by {source}: {they} until stopped, and the job '
            'ends when its tracked tasks have succeeded. To wait for a role, set its kind to "tracked".',
        )


def framework_errors(spec: JobSpec) -> Sequence[Problem]:
    """Return the errors that the framework adapter finds."""
    adapter = _load_adapter(spec)
    if isinstance(adapter, Problem):
        return [adapter]
    return [*adapter.validate(spec), *_scopes(spec, adapter), *check_elastic_roles(spec, adapter)]


def _load_adapter(spec: JobSpec) -> Framework | Problem:
    home = home_of(spec.framework)
    try:
        return load(home)
    except (ImportError, AttributeError, TypeError, SyntaxError, ValueError) as error:
        message = f"cannot load the plug-in {home}: {type(error).__name__}: {error}"
        return Problem(key="framework", value=quote(spec.framework), message=message)


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
