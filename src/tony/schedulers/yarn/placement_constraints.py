"""Placement constraints and allocation tags of a job's tasks, and constraints that no cluster could satisfy. Pure.

Roles with constraints, or named in one, are requested through the SchedulingRequest API (`find_placed`): only there do
containers have tags. YARN places such requests only on nodes without a label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tony.errors import Problem
from tony.hadoop.wire.placement import (
    CompositeKind,
    PlacementConstraint,
    PlacementTargetType,
    SimpleConstraint,
    forbid_tags,
    require_all,
)
from tony.hadoop.yarn.constraint_text import SELF, ConstraintError, parse
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


_TAG = re.compile(r"[^\s,:()/=!]+")


def find_unsatisfiable_constraints(spec: JobSpec, settings: YarnSettings) -> list[Problem]:
    """Return all of them; only the invalid ones, if there are any."""
    unreadable = [*_find_unreadable(spec, settings), *_find_bad_tags(spec)]
    return unreadable or [*_find_labelled(spec, settings), *_find_never_satisfied(spec, settings)]


def find_constraint_hints(spec: JobSpec, settings: YarnSettings) -> list[str]:
    """Return hints for anti-affinity with tags that no container has, which may be intended."""
    tags = {tag for name, role in spec.effective_roles.items() for tag in list_tags(name, role)}
    return [
        f"{key}: no container of the job has the tag {tag}; there are {', '.join(sorted(tags))}."
        for key, text in iterate_texts(spec, settings)
        for tag in dict.fromkeys(iterate_named_tags(parse(text)))
        if tag not in tags and not _speaks_of_all(parse(text), tag)
    ]


def _speaks_of_all(constraint: PlacementConstraint, tag: str) -> bool:
    """Return True if containers of other applications may be meant."""
    targets = [target for simple in iterate_simple(constraint) for target in simple.targets]
    return any(target.key != SELF and tag in target.values for target in targets)


def _find_unreadable(spec: JobSpec, settings: YarnSettings) -> Iterator[Problem]:
    for key, text in iterate_texts(spec, settings):
        try:
            parse(text)
        except ConstraintError as error:
            yield Problem(key=key, value=text, message=f"{error}.")


def _find_bad_tags(spec: JobSpec) -> Iterator[Problem]:
    for name, role in spec.effective_roles.items():
        for tag in read_role_settings(role).placement_tags:
            if not _TAG.fullmatch(tag):
                message = "a tag must not contain blanks or any of , : ( ) / = !"
                yield Problem(key=f"roles.{name}.yarn.placement_tags", value=tag, message=message)


def _find_labelled(spec: JobSpec, settings: YarnSettings) -> Iterator[Problem]:
    for name, key in find_placed(spec, settings).items():
        role = spec.effective_roles[name]
        label = role.node_label or settings.node_label
        if not label:
            continue
        if key == f"roles.{name}.spread":
            value, does = "true", "spreads tasks over"
        else:
            value = dict(iterate_texts(spec, settings)).get(key) or ", ".join(read_role_settings(role).placement_tags)
            does = "supports placement constraints on"
        message = f"YARN {does} nodes without a label only, but {name} requests {label}. Remove one of the settings."
        yield Problem(key=key, value=value, message=message)


def _find_never_satisfied(spec: JobSpec, settings: YarnSettings) -> Iterator[Problem]:
    """Yield roles that need containers which never exist, or only after their own."""
    roles = {name: role for name, role in spec.effective_roles.items() if role.instances}
    waiting = {name: _build_whole(role, settings) for name, role in roles.items()}
    tag_counts: Counter[str] = Counter()  # tag -> how many containers there can be
    while ready := [name for name, constraint in waiting.items() if _can_be(constraint, tag_counts)]:
        for name in ready:
            del waiting[name]
            tag_counts.update(dict.fromkeys(list_tags(name, roles[name]), roles[name].instances))
    tags = {tag for name, role in roles.items() for tag in list_tags(name, role)}
    for name, constraint in waiting.items():
        missing = ((tag, count) for simple in iterate_simple(constraint) for tag, count in _needs(simple))
        tag, count = next(each for each in missing if tag_counts[each[0]] < each[1])
        if tag not in tags:
            why = f"no container of the job has the tag {tag}; there are {', '.join(sorted(tags))}"
        elif tag_counts[tag]:
            most = tag_counts[tag]
            why = f"it requires {count} containers with the tag {tag} in one place, but at most {most} can exist"
        else:
            why = f"it requires a container with the tag {tag} first, but none can be placed before"
        own = read_role_settings(roles[name]).placement
        key, text = (OF_ALL, settings.placement) if own is None else (f"roles.{name}.yarn.placement", own)
        yield Problem(key=key, value=text, message=f"no task of {name} would ever start: {why}.")


def _build_whole(role: Role, settings: YarnSettings) -> PlacementConstraint:
    return require_all(
        *(parse(text) for text in (read_role_settings(role).placement, settings.placement) if text is not None)
    )


def _can_be(constraint: PlacementConstraint, tag_counts: Mapping[str, int]) -> bool:
    """Return True if these containers could satisfy the constraint, as far as it depends on them."""
    if constraint.composite:
        children = [_can_be(child, tag_counts) for child in constraint.composite.children]
        return all(children) if constraint.composite.kind is CompositeKind.AND else any(children)
    assert constraint.simple is not None
    return all(tag_counts.get(tag, 0) >= count for tag, count in _needs(constraint.simple))


def _needs(simple: SimpleConstraint) -> Iterator[tuple[str, int]]:
    """Yield the tags of which containers of the application must exist, and how many."""
    for target in simple.targets:
        if target.type is PlacementTargetType.ALLOCATION_TAG and target.key == SELF and (simple.minimum or 0) > 0:
            for tag in target.values:
                yield tag, simple.minimum or 0
