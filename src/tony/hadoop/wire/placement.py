"""Requests with placement constraints: near, apart, at most so many on a node (package `hadoop.yarn`, 3.1 and later).

The cluster takes them only if `yarn.resourcemanager.placement-constraints.handler` is `scheduler` or
`placement-processor`; its default is `disabled`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tony.hadoop.wire.proto import ENUM, INT32, INT64, STRING, ProtoMessage, optional, repeated, required
from tony.hadoop.wire.yarn_records import ExecutionTypeRequest, Priority, Resource

#: Scopes of a constraint.
NODE: Final = "node"
RACK: Final = "rack"
#: No upper limit.
NO_LIMIT: Final = (1 << 31) - 1


class PlacementTargetType(IntEnum):
    """What a constraint looks at: attributes of nodes, or tags of the containers that are there."""

    NODE_ATTRIBUTE = 1
    ALLOCATION_TAG = 2
    SELF = 3


class AttributeOperation(IntEnum):
    """How an attribute is compared; constraints on tags compare nothing."""

    NONE = 1
    EQUAL = 2
    NOT_EQUAL = 3


class CompositeKind(IntEnum):
    """How constraints are joined."""

    AND = 1
    OR = 2
    DELAYED_OR = 3


class RejectionReason(IntEnum):
    """Why a request was given back."""

    COULD_NOT_PLACE_ON_NODE = 1
    COULD_NOT_SCHEDULE_ON_NODE = 2


class PlacementTarget(ProtoMessage):
    """What a constraint looks at. For tags the key is a namespace, `self` for the application's own."""

    type: PlacementTargetType = required(1, ENUM(PlacementTargetType))
    key: str | None = optional(2, STRING)
    values: tuple[str, ...] = repeated(3, STRING)


class SimpleConstraint(ProtoMessage):
    """Between `minimum` and `maximum` containers like the targets in the scope where this one goes."""

    scope: str = required(1, STRING)
    targets: tuple[PlacementTarget, ...] = repeated(2, PlacementTarget)
    minimum: int | None = optional(3, INT32)
    maximum: int | None = optional(4, INT32)
    operation: AttributeOperation | None = optional(5, ENUM(AttributeOperation))


class CompositeConstraint(ProtoMessage):
    """Several constraints joined."""

    kind: CompositeKind = required(1, ENUM(CompositeKind))
    children: tuple[PlacementConstraint, ...] = repeated(2, lambda: PlacementConstraint)


class PlacementConstraint(ProtoMessage):
    """One of the two."""

    simple: SimpleConstraint | None = optional(1, SimpleConstraint)
    composite: CompositeConstraint | None = optional(2, CompositeConstraint)


class PlacementConstraintEntry(ProtoMessage):
    """A constraint for all containers with some tags, given at the registration."""

    tags: tuple[str, ...] = repeated(1, STRING)
    constraint: PlacementConstraint | None = optional(2, PlacementConstraint)


class ResourceSizing(ProtoMessage):
    """How many of what size are still wanted."""

    count: int | None = optional(1, INT32)
    resources: Resource | None = optional(2, Resource)


class SchedulingRequest(ProtoMessage):
    """What a resource request is, with tags and a constraint and without places."""

    allocation_request_id: int = optional(1, INT64, 0)
    priority: Priority | None = optional(2, Priority)
    execution_type: ExecutionTypeRequest | None = optional(3, ExecutionTypeRequest)
    allocation_tags: tuple[str, ...] = repeated(4, STRING)
    sizing: ResourceSizing | None = optional(5, ResourceSizing)
    constraint: PlacementConstraint | None = optional(6, PlacementConstraint)


class RejectedRequest(ProtoMessage):
    """A scheduling request that the ResourceManager gave up."""

    reason: RejectionReason = required(1, ENUM(RejectionReason))
    request: SchedulingRequest = required(2, SchedulingRequest)


def _of_tags(scope: str, minimum: int, maximum: int, tags: tuple[str, ...]) -> PlacementConstraint:
    target = PlacementTarget(type=PlacementTargetType.ALLOCATION_TAG, key="self", values=tags)
    return PlacementConstraint(
        simple=SimpleConstraint(
            scope=scope, targets=(target,), minimum=minimum, maximum=maximum, operation=AttributeOperation.NONE
        )
    )


def apart(scope: str, *tags: str) -> PlacementConstraint:
    """Not where a container of the application with one of these tags is."""
    return _of_tags(scope, 0, 0, tags)


def together(scope: str, *tags: str) -> PlacementConstraint:
    """Only where a container of the application with such a tag is."""
    return _of_tags(scope, 1, NO_LIMIT, tags)


def at_most(count: int, scope: str, *tags: str) -> PlacementConstraint:
    """Only where no more than `count` others of the application with such a tag are."""
    return _of_tags(scope, 0, count, tags)


def on_attribute(name: str, *values: str, differs: bool = False) -> PlacementConstraint:
    """Only on nodes whose attribute has (or, if it differs, has not) one of these values."""
    target = PlacementTarget(type=PlacementTargetType.NODE_ATTRIBUTE, key=name, values=values)
    operation = AttributeOperation.NOT_EQUAL if differs else AttributeOperation.EQUAL
    simple = SimpleConstraint(scope=NODE, targets=(target,), minimum=-1, maximum=-1, operation=operation)
    return PlacementConstraint(simple=simple)


def all_of(*constraints: PlacementConstraint) -> PlacementConstraint:
    """Where each of them allows it."""
    return PlacementConstraint(composite=CompositeConstraint(kind=CompositeKind.AND, children=constraints))
