"""Requests with placement constraints: affinity, anti-affinity, cardinality (package `hadoop.yarn`, 3.1 and later).

The cluster accepts them only if `yarn.resourcemanager.placement-constraints.handler` is `scheduler` or
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
    """The subject of a constraint: node attributes, or the allocation tags of containers on the node."""

    NODE_ATTRIBUTE = 1
    ALLOCATION_TAG = 2
    SELF = 3


class AttributeOperation(IntEnum):
    """The comparison of an attribute; constraints on tags use NONE."""

    NONE = 1
    EQUAL = 2
    NOT_EQUAL = 3


class CompositeKind(IntEnum):
    """The operator that joins constraints."""

    AND = 1
    OR = 2
    DELAYED_OR = 3


class RejectionReason(IntEnum):
    """The reason why a scheduling request was rejected."""

    COULD_NOT_PLACE_ON_NODE = 1
    COULD_NOT_SCHEDULE_ON_NODE = 2


class PlacementTarget(ProtoMessage):
    """The target of a constraint. For tags the key is a namespace, `self` for the application's own."""

    type: PlacementTargetType = required(1, ENUM(PlacementTargetType))
    key: str | None = optional(2, STRING)
    values: tuple[str, ...] = repeated(3, STRING)


class SimpleConstraint(ProtoMessage):
    """Requires `minimum` to `maximum` containers that match the targets in the scope of the new container."""

    scope: str = required(1, STRING)
    targets: tuple[PlacementTarget, ...] = repeated(2, PlacementTarget)
    minimum: int | None = optional(3, INT32)
    maximum: int | None = optional(4, INT32)
    operation: AttributeOperation | None = optional(5, ENUM(AttributeOperation))


class CompositeConstraint(ProtoMessage):
    kind: CompositeKind = required(1, ENUM(CompositeKind))
    children: tuple[PlacementConstraint, ...] = repeated(2, lambda: PlacementConstraint)


class PlacementConstraint(ProtoMessage):
    """One of the two."""

    simple: SimpleConstraint | None = optional(1, SimpleConstraint)
    composite: CompositeConstraint | None = optional(2, CompositeConstraint)


class ResourceSizing(ProtoMessage):
    """The number and size of the containers still requested."""

    count: int | None = optional(1, INT32)
    resources: Resource | None = optional(2, Resource)


class SchedulingRequest(ProtoMessage):
    """A request for containers with tags and a constraint, but without hosts or racks."""

    allocation_request_id: int = optional(1, INT64, 0)
    priority: Priority | None = optional(2, Priority)
    execution_type: ExecutionTypeRequest | None = optional(3, ExecutionTypeRequest)
    allocation_tags: tuple[str, ...] = repeated(4, STRING)
    sizing: ResourceSizing | None = optional(5, ResourceSizing)
    constraint: PlacementConstraint | None = optional(6, PlacementConstraint)


class RejectedRequest(ProtoMessage):
    """A scheduling request that the ResourceManager rejected."""

    reason: RejectionReason = required(1, ENUM(RejectionReason))
    request: SchedulingRequest = required(2, SchedulingRequest)


def _constrain_tags(scope: str, minimum: int, maximum: int, tags: tuple[str, ...]) -> PlacementConstraint:
    target = PlacementTarget(type=PlacementTargetType.ALLOCATION_TAG, key="self", values=tags)
    return PlacementConstraint(
        simple=SimpleConstraint(
            scope=scope, targets=(target,), minimum=minimum, maximum=maximum, operation=AttributeOperation.NONE
        )
    )


def forbid_tags(scope: str, *tags: str) -> PlacementConstraint:
    """Return a constraint: no container of the application with one of these tags in the same scope."""
    return _constrain_tags(scope, 0, 0, tags)


def require_attribute(name: str, *values: str, differs: bool = False) -> PlacementConstraint:
    """Return a constraint: only nodes whose attribute has (or, if `differs`, does not have) one of these values."""
    target = PlacementTarget(type=PlacementTargetType.NODE_ATTRIBUTE, key=name, values=values)
    operation = AttributeOperation.NOT_EQUAL if differs else AttributeOperation.EQUAL
    simple = SimpleConstraint(scope=NODE, targets=(target,), minimum=-1, maximum=-1, operation=operation)
    return PlacementConstraint(simple=simple)


def require_all(*constraints: PlacementConstraint) -> PlacementConstraint:
    """Return the conjunction of constraints."""
    return PlacementConstraint(composite=CompositeConstraint(kind=CompositeKind.AND, children=constraints))
