"""Placement constraints and allocation tags of a job's tasks, from its settings. Pure.

Roles with constraints, or named in one, are requested through the SchedulingRequest API (`placed`): only there do
containers have tags. YARN places such requests only on nodes without a label.
"""

from __future__ import annotations

from collections.abc import Iterator

from tony.hadoop.wire.placement import (
    PlacementConstraint,
    PlacementTargetType,
    SimpleConstraint,
    forbid_tags,
    require_all,
)
from tony.hadoop.yarn.constraint_text import SELF, parse
from tony.model.job_spec import JobSpec, Role
from tony.schedulers.yarn.settings import YarnSettings, read_role_settings

#: The setting for all containers of the application.
OF_ALL = "scheduler.yarn.placement"
#: Namespaces in which a tag may be one of our own containers.
_OWN_NAMESPACES = (SELF, "all")


def list_tags(name: str, role: Role) -> tuple[str, ...]:
    """Return the allocation tags of a role's containers."""
    own = tuple(dict.fromkeys(read_role_settings(role).placement_tags)) or (name,)
    return (*own, name) if role.spread and name not in own else own


def iterate_texts(spec: JobSpec, settings: YarnSettings) -> Iterator[tuple[str, str]]:
    """Yield each constraint of the job, with its key."""
    if settings.placement is not None:
        yield OF_ALL, settings.placement
    for name, role in spec.effective_roles.items():
        own = read_role_settings(role).placement
        if own is not None and role.instances:
            yield f"roles.{name}.yarn.placement", own


def build_constraint(spec: JobSpec, name: str, settings: YarnSettings) -> PlacementConstraint | None:
    """Return the constraint sent with the requests of a role; None for none.

    The application-wide constraint is sent with each request as well. It could be registered by tags instead; but YARN
    does not find it for containers with several tags, and where constraints are disabled, an AM whose registration had
    one can no longer register or unregister (both seen with 3.4.2).

    Raises:
        ConstraintError: it cannot be parsed.
    """
    role = spec.effective_roles[name]
    parts = [forbid_tags("node", name)] if role.spread else []
    parts += [parse(text) for text in (read_role_settings(role).placement, settings.placement) if text is not None]
    return require_all(*parts) if len(parts) > 1 else next(iter(parts), None)


def find_placed(spec: JobSpec, settings: YarnSettings) -> dict[str, str]:
    """Return the roles requested through the SchedulingRequest API, each with the setting that requires it.

    Raises:
        ConstraintError: a constraint cannot be parsed.
    """
    named = {tag: key for key, text in iterate_texts(spec, settings) for tag in iterate_named_tags(parse(text))}
    found = {}
    for name, role in spec.effective_roles.items():
        role_tags = read_role_settings(role)
        used = {
            "spread": role.spread,
            "yarn.placement": role_tags.placement,
            "yarn.placement_tags": role_tags.placement_tags,
        }
        own = [each for each, value in used.items() if value]
        key = f"roles.{name}.{own[0]}" if own else OF_ALL if settings.placement is not None else ""
        key = key or next((named[tag] for tag in list_tags(name, role) if tag in named), "")
        if key and role.instances:
            found[name] = key
    return found


def iterate_named_tags(constraint: PlacementConstraint) -> Iterator[str]:
    """Yield the tags that may belong to our own containers."""
    for simple in iterate_simple(constraint):
        for target in simple.targets:
            if target.type is PlacementTargetType.ALLOCATION_TAG and target.key in _OWN_NAMESPACES:
                yield from target.values


def iterate_simple(constraint: PlacementConstraint) -> Iterator[SimpleConstraint]:
    """Yield all simple constraints in a constraint."""
    if constraint.simple:
        yield constraint.simple
    for child in constraint.composite.children if constraint.composite else ():
        yield from iterate_simple(child)
