"""Where a job's tasks may be, and by which tags constraints know them: what its settings say, for YARN. Pure.

A role that is constrained, or that a constraint speaks of, is asked for the newer way (`placed`): only so has YARN tags
of its containers. It seeks them on nodes without a label alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tony.hadoop.wire.placement import (
    PlacementConstraint,
    PlacementTargetType,
    SimpleConstraint,
    all_of,
    apart,
)
from tony.hadoop.yarn.constraint_text import SELF, parse
from tony.model.job_spec import JobSpec, Role
from tony.schedulers.yarn.settings import YarnSettings

#: The setting for all of the application's containers.
OF_ALL = "scheduler.yarn.placement"
#: A tag in one of these namespaces may mean ours.
_OURS = (SELF, "all")


def tags_of(name: str, role: Role) -> tuple[str, ...]:
    """The allocation tags of a role's containers."""
    own = tuple(dict.fromkeys(role.placement_tags)) or (name,)
    return (*own, name) if role.spread and name not in own else own


def texts(spec: JobSpec, settings: YarnSettings) -> Iterator[tuple[str, str]]:
    """Each constraint that is written, with its key."""
    if settings.placement is not None:
        yield OF_ALL, settings.placement
    for name, role in spec.effective_roles.items():
        if role.placement is not None and role.instances:
            yield f"roles.{name}.placement", role.placement


def constraint_of(spec: JobSpec, name: str, settings: YarnSettings) -> PlacementConstraint | None:
    """What is sent with the asks of a role; None for nothing.

    What holds for all of the application is sent with them as well. It could be registered by tags instead; but YARN
    does not find it for containers with several tags, and where it takes no constraints at all, a master whose
    registration had one can neither register nor end any more (both seen with 3.4.2).

    Raises:
        ConstraintError: it cannot be read.
    """
    role = spec.effective_roles[name]
    parts = [apart("node", name)] if role.spread else []
    parts += [parse(text) for text in (role.placement, settings.placement) if text is not None]
    return all_of(*parts) if len(parts) > 1 else next(iter(parts), None)


def placed(spec: JobSpec, settings: YarnSettings) -> dict[str, str]:
    """The roles that are asked for the newer way, each with the setting that wants it.

    Raises:
        ConstraintError: a constraint cannot be read.
    """
    named = {tag: key for key, text in texts(spec, settings) for tag in named_tags(parse(text))}
    found = {}
    for name, role in spec.effective_roles.items():
        own = [each for each in ("spread", "placement", "placement_tags") if getattr(role, each)]
        key = f"roles.{name}.{own[0]}" if own else OF_ALL if settings.placement is not None else ""
        key = key or next((named[tag] for tag in tags_of(name, role) if tag in named), "")
        if key and role.instances:
            found[name] = key
    return found


def named_tags(constraint: PlacementConstraint) -> Iterator[str]:
    """The tags that may be those of our own containers."""
    for simple in simple_ones(constraint):
        for target in simple.targets:
            if target.type is PlacementTargetType.ALLOCATION_TAG and target.key in _OURS:
                yield from target.values


def simple_ones(constraint: PlacementConstraint) -> Iterator[SimpleConstraint]:
    """All that it is made of."""
    if constraint.simple:
        yield constraint.simple
    for child in constraint.composite.children if constraint.composite else ():
        yield from simple_ones(child)
