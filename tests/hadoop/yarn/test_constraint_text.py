"""Placement constraints as text: what Hadoop's own parser made of the same, and what is said of an error.

`constraints-3.4.2.json` was written by org.apache.hadoop.yarn.util.constraint.PlacementConstraintParser of Hadoop
3.4.2: text -> bytes of its PlacementConstraintProto in base64, or null where it threw.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.hadoop.wire.placement import (
    NO_LIMIT,
    AttributeOperation,
    CompositeConstraint,
    CompositeKind,
    PlacementConstraint,
    PlacementTarget,
    PlacementTargetType,
    SimpleConstraint,
    require_attribute,
)
from tony.hadoop.wire.proto import decode
from tony.hadoop.yarn.constraint_text import MAX_DEPTH, ConstraintError, parse

GOLDEN: dict[str, str | None] = json.loads(
    (Path(__file__).parent.parent / "golden/constraints-3.4.2.json").read_text(encoding="utf-8")
)
#: Accepted by Hadoop, but never meant so.
ONLY_HADOOP = {
    "in,node",
    "in,node,app-id/zk",
    "cardinality,node,zk,3,1",
    "cardinality,node,zk,-1,3",
    "and(in,node,a)x",
    "and(in,node,a::in,node,b)",
    "and(in,node,a:)",
    "java==1.8",
    "java=1.8=2",
    "in,node,zk:3",
    "in,node,a,,b",
}
#: Hadoop's own would not take these, but its ResourceManager does.
ONLY_WE = {
    "in,node,app-tag/nightly/zk",
    "in,node,app-id/application_1_2/zk",
    "And(in,node,a)",
    " and(in,node,a)",
}


def one_by_one(name: str, values: Sequence[str], operation: AttributeOperation | None) -> PlacementConstraint:
    """Several values of an attribute, as the ResourceManager takes them all seriously."""
    differs = operation is AttributeOperation.NOT_EQUAL
    children = tuple(require_attribute(name, value, differs=differs) for value in values)
    kind = CompositeKind.AND if differs else CompositeKind.OR
    return PlacementConstraint(composite=CompositeConstraint(kind=kind, children=children))


def comparable(constraint: PlacementConstraint) -> Hashable:
    """Targets and values are sets in Hadoop, and come in any order; it trims an attribute only at its ends.

    Of several values its ResourceManager looks at one, so ours are several constraints.
    """
    if constraint.composite:
        return constraint.composite.kind, frozenset(comparable(child) for child in constraint.composite.children)
    simple = constraint.simple
    assert simple
    first = simple.targets[0]
    if first.type is PlacementTargetType.NODE_ATTRIBUTE and len(first.values) > 1:
        return comparable(one_by_one(first.key or "", first.values, simple.operation))
    targets = frozenset(
        (target.type, (target.key or "").strip(), frozenset(value.strip() for value in target.values))
        for target in simple.targets
    )
    return simple.scope, targets, simple.minimum, simple.maximum, simple.operation


@pytest.mark.parametrize("text", GOLDEN)
def test_as_hadoop_reads_it(text: str) -> None:
    """The same constraint from the same text, or an error for both; what differs is listed."""
    expected = GOLDEN[text]
    if expected is None and text not in ONLY_WE:
        with pytest.raises(ConstraintError):
            parse(text)
    elif text in ONLY_HADOOP:
        assert expected is not None
        with pytest.raises(ConstraintError):
            parse(text)
    elif expected is None:
        parse(text)
    else:
        assert comparable(decode(PlacementConstraint, base64.b64decode(expected))) == comparable(parse(text))


def test_namespaces_that_hadoops_text_cannot_say() -> None:
    """Tags of one other application, and of all with a tag of their own."""
    constraint = parse("notin,node,app-id/application_1_2/zk,app-tag/nightly/zk")
    assert constraint.simple
    assert [(target.key, target.values) for target in constraint.simple.targets] == [
        ("app-id/application_1_2", ("zk",)),
        ("app-tag/nightly", ("zk",)),
    ]


# --- any constraint, written and read again ---------------------------------------------------------------------------

_words = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
_namespaces = st.sampled_from(["self", "all", "not-self", "app-tag/nightly", "app-id/application_1_2"])
_tags = st.lists(st.tuples(_namespaces, _words), min_size=1, max_size=3, unique=True)
_bounds = st.sampled_from([(1, NO_LIMIT), (0, 0)]) | st.tuples(st.integers(0, 9), st.integers(0, NO_LIMIT)).map(
    lambda pair: (min(pair), max(pair))
)


def _of_tags(scope: str, tags: list[tuple[str, str]], bounds: tuple[int, int]) -> PlacementConstraint:
    targets = tuple(
        PlacementTarget(type=PlacementTargetType.ALLOCATION_TAG, key=key, values=(tag,)) for key, tag in tags
    )
    return PlacementConstraint(
        simple=SimpleConstraint(
            scope=scope,
            targets=targets,
            minimum=bounds[0],
            maximum=bounds[1],
            operation=AttributeOperation.NONE,
        )
    )


_simple = st.builds(_of_tags, st.sampled_from(["node", "rack"]), _tags, _bounds) | st.builds(
    lambda name, values, differs: require_attribute(name, *values, differs=differs),
    st.from_regex(r"([a-z.]{1,8}/)?[a-z]{1,8}", fullmatch=True),
    st.lists(_words, min_size=1, max_size=3, unique=True),
    st.booleans(),
)
constraints = st.recursive(
    _simple,
    lambda inner: st.builds(
        lambda kind, children: PlacementConstraint(composite=CompositeConstraint(kind=kind, children=tuple(children))),
        st.sampled_from([CompositeKind.AND, CompositeKind.OR]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
_blanks = st.sampled_from(["", "", " ", "  ", "\t"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[PlacementConstraint, str]:
    """A constraint, and one of the many ways to write it."""
    constraint = draw(constraints)

    def around(text: str) -> str:
        return f"{draw(_blanks)}{text}{draw(_blanks)}"

    def word(text: str) -> str:
        return draw(st.sampled_from([text, text.upper(), text.capitalize()]))

    def written(each: PlacementConstraint) -> str:
        if each.composite:
            children = ":".join(written(child) for child in each.composite.children)
            name = word("and" if each.composite.kind is CompositeKind.AND else "or")
            return around(f"{name}{draw(_blanks)}({children})")
        simple = each.simple
        assert simple
        assert simple.minimum is not None
        target = simple.targets[0]
        if target.type is PlacementTargetType.NODE_ATTRIBUTE:
            sign = "!=" if simple.operation is AttributeOperation.NOT_EQUAL else "="
            first, *rest = target.values
            parts = [f"{target.key}{draw(_blanks)}{sign}{draw(_blanks)}{first}", *rest]
            return ",".join(map(around, parts))
        tags = [
            value if target.key == "self" and draw(st.booleans()) else f"{target.key}/{value}"
            for target in simple.targets
            for value in target.values
        ]
        bounds = (simple.minimum, simple.maximum)
        if bounds in ((0, 0), (1, NO_LIMIT)) and draw(st.booleans()):
            parts = [word("in" if simple.minimum else "notin"), word(simple.scope), *tags]
        else:
            parts = [word("cardinality"), word(simple.scope), *tags, *map(str, bounds)]
        return ",".join(map(around, parts))

    return constraint, written(constraint)


@given(texts())
def test_constraints_round_trip(pair: tuple[PlacementConstraint, str]) -> None:
    constraint, text = pair
    assert spelled_out(constraint) == parse(text)


def spelled_out(constraint: PlacementConstraint) -> PlacementConstraint:
    """With each value of an attribute by itself."""
    if constraint.composite:
        children = tuple(map(spelled_out, constraint.composite.children))
        return PlacementConstraint(composite=CompositeConstraint(kind=constraint.composite.kind, children=children))
    assert constraint.simple
    target = constraint.simple.targets[0]
    if len(target.values) == 1:
        return constraint
    return one_by_one(target.key or "", target.values, constraint.simple.operation)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a constraint is missing; write in,... notin,... (character 1)"),
        ("notin,nod,ps", "expected `node` or `rack`, not `nod` (character 7)"),
        ("in", "in needs `node` or `rack`, and tags: in,node,zk (character 1)"),
        ("in,node", "in needs `node` or `rack`, and tags: in,node,zk (character 1)"),
        ("inn,node,zk", "`inn` is not a constraint; write in,... (character 1)"),
        ("in,node,zk,", "empty part next to this comma (character 12)"),
        ("in,node,their/zk", "`their` is not a tag namespace; the namespaces are self/..., (character 9)"),
        ("in,node,all/", "`all/` has no tag after the namespace (character 9)"),
        ("in,node,app-tag/zk", "has an incomplete namespace: write app-tag/NAME/TAG (character 9)"),
        ("in,node,a b", "`a b` is not a tag: it has a blank or = in it (character 9)"),
        ("in,node,\x1b[2J", r"`\x1b` is not allowed in a constraint (character 9)"),
        ("os\udce4=linux", r"`\udce4` is not allowed in a constraint (character 3)"),
        ("cardinality,node,zk,3", "cardinality,node,zk,1,3 (character 1)"),
        ("cardinality,node,zk,one,3", "expected an integer from 0 to 2147483647, not `one` (character 21)"),
        ("cardinality,node,zk,4,3", "the minimum 4 is larger than the maximum 3 (character 21)"),
        ("and(in,node,a:notin,nod,b)", "not `nod` (character 21)"),
        ("and(in,node,a", "this `(` is not closed (character 4)"),
        ("and(or(in,node,a)x:a=b)", "expected `:` or `)`, not `x:a=b)` (character 18)"),
        ("and(in,node,a) or", "the constraint ends before `or` (character 16)"),
        ("in,node,a:in,node,b", "join constraints with and(...:...) (character 10)"),
        ("not(in,node,a)", "`(` may follow only `and` or `or`, not `not` (character 4)"),
        ("java=1.8,os=linux", "`os=linux` is not an attribute value. Join several attributes (character 10)"),
        ("java=", "write an attribute as NAME=VALUE or NAME!=VALUE, not `java=` (character 1)"),
        ("and(" * (MAX_DEPTH + 1) + "a=b", "constraints are nested more than 20 deep (character 81)"),
        ("x" * 100, f"`{'x' * 40}...` is not a constraint (character 1)"),
    ],
)
def test_errors_in_constraints(text: str, said: str) -> None:
    """What is wrong, where, and what to write instead."""
    with pytest.raises(ConstraintError) as found:
        parse(text)
    what, _, place = said.rpartition(" (")
    assert what in str(found.value)
    assert str(found.value).endswith(f"({place}")
