"""A parser of YARN's placement-constraint language into the messages of `tony.hadoop.wire.placement`.

    in,node,zk                          only on nodes with a container tagged zk
    notin,rack,zk,hbase                 only on racks without either tag
    cardinality,node,zk,1,3             only on nodes with 1 to 3 of them
    java=1.8,1.9    os!=windows         only on nodes with such an attribute
    and(in,node,zk:or(a=1:b=1))         joined; may be nested

Keywords are case-insensitive, and blanks are allowed between all parts. A tag means containers of the same
application, unless it has a namespace: `all/zk`, `not-self/zk`, `app-id/application_1_2/zk`, `app-tag/nightly/zk`.

Several values of an attribute mean any of them (`=`) or none of them (`!=`). The ResourceManager looks at only one
value of a list (observed with 3.4.2), so they are written as several constraints.

Facts: org.apache.hadoop.yarn.util.constraint.PlacementConstraintParser of Hadoop 3.4. Text that it accepts means
the same here, except for obvious errors, which are refused: missing tags, empty parts, words after the last
parenthesis, a minimum above the maximum. It has no syntax for the last two namespaces.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tony.control_characters import escape_line
from tony.hadoop.wire.placement import (
    NO_LIMIT,
    NODE,
    RACK,
    AttributeOperation,
    CompositeConstraint,
    CompositeKind,
    PlacementConstraint,
    PlacementTarget,
    PlacementTargetType,
    SimpleConstraint,
    require_attribute,
)

#: Nesting depth. Hadoop is limited only by the nesting of its messages.
MAX_DEPTH: Final = 20
SELF: Final = "self"
_NAMESPACES: Final = (SELF, "not-self", "all")
#: Namespaces that need an argument, with an example.
_NAMESPACES_OF: Final = {"app-id": "app-id/application_1700000000000_0001/TAG", "app-tag": "app-tag/NAME/TAG"}
_JOINS: Final = {"and": CompositeKind.AND, "or": CompositeKind.OR}
_JOIN = re.compile(r"\s*(and|or)\s*\(", re.ASCII | re.IGNORECASE)
_SIMPLE = re.compile(r"[^:()]*")
_ATTRIBUTE = re.compile(r"([^=!]*)(!?=)(.*)", re.DOTALL)
_SHOWN: Final = 40
_FORMS: Final = "write in,... notin,... cardinality,... NAME=VALUE and(...:...) or(...:...)"


class ConstraintError(ValueError):
    """The text is not a valid constraint.

    Attributes:
        place: position of the error, counted in characters from 1.
    """

    def __init__(self, place: int, message: str) -> None:
        self.place = place
        super().__init__(f"{message} (character {place})")


class _Word(NamedTuple):
    """A part between two commas, and its offset."""

    text: str
    place: int


def parse(text: str) -> PlacementConstraint:
    """Parse a constraint.

    Raises:
        ConstraintError: the text is not a valid constraint.
    """
    odd = next((place for place, char in enumerate(text) if not (char.isprintable() or char.isspace())), None)
    if odd is not None:
        raise _error(odd, f"{_quote(text[odd])} is not allowed in a constraint")
    constraint, end = _read(text, 0, 0)
    if end < len(text):
        hint = "; join constraints with and(...:...)" if text[end] == ":" else ""
        raise _error(end, f"the constraint ends before {_quote(text[end:])}{hint}")
    return constraint


def _read(text: str, start: int, depth: int) -> tuple[PlacementConstraint, int]:
    """Parse one constraint from `start`; return it and its end offset."""
    joined = _JOIN.match(text, start)
    if joined:
        if depth == MAX_DEPTH:
            raise _error(joined.start(1), f"constraints are nested more than {MAX_DEPTH} deep")
        return _read_joined(text, joined, depth)
    found = _SIMPLE.match(text, start)
    assert found is not None
    end = found.end()
    if end < len(text) and text[end] == "(":
        raise _error(end, f"`(` may follow only `and` or `or`, not {_quote(found[0].strip())}")
    return _parse_simple(_words(text, start, end)), end


def _read_joined(text: str, joined: re.Match[str], depth: int) -> tuple[PlacementConstraint, int]:
    children, place = [], joined.end()
    while True:
        child, place = _read(text, place, depth + 1)
        children.append(child)
        if place == len(text):
            raise _error(joined.end() - 1, "this `(` is not closed")
        if text[place] not in ":)":
            raise _error(place, f"expected `:` or `)`, not {_quote(text[place:])}")
        place += 1
        if text[place - 1] == ")":
            break
    while place < len(text) and text[place].isspace():
        place += 1
    kind = _JOINS[joined[1].lower()]
    return PlacementConstraint(composite=CompositeConstraint(kind=kind, children=tuple(children))), place


def _words(text: str, start: int, end: int) -> list[_Word]:
    words = []
    for part in text[start:end].split(","):
        blanks = len(part) - len(part.lstrip())
        words.append(_Word(part.strip(), start + blanks))
        start += len(part) + 1
    if words == [_Word("", words[0].place)]:
        raise _error(words[0].place, f"a constraint is missing; {_FORMS}")
    for word in words:
        if not word.text:
            raise _error(word.place, "empty part next to this comma")
    return words


def _parse_simple(words: list[_Word]) -> PlacementConstraint:
    match words[0].text.lower():
        case "in":
            return _parse_tags(words, words[2:], 1, NO_LIMIT)
        case "notin":
            return _parse_tags(words, words[2:], 0, 0)
        case "cardinality":
            return _cardinality(words)
    if "=" in words[0].text:
        return _attribute(words)
    raise _error(words[0].place, f"{_quote(words[0].text)} is not a constraint; {_FORMS}")


def _cardinality(words: list[_Word]) -> PlacementConstraint:
    if len(words) < 5:
        raise _error(
            words[0].place,
            "cardinality needs `node` or `rack`, tags, minimum and maximum: cardinality,node,zk,1,3",
        )
    least, most = _number(words[-2]), _number(words[-1])
    if least > most:
        raise _error(words[-2].place, f"the minimum {least} is larger than the maximum {most}")
    return _parse_tags(words, words[2:-2], least, most)


def _number(word: _Word) -> int:
    text = word.text
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(NO_LIMIT)) and int(text) <= NO_LIMIT):
        raise _error(word.place, f"expected an integer from 0 to {NO_LIMIT}, not {_quote(text)}")
    return int(text)


def _parse_tags(words: list[_Word], tags: list[_Word], least: int, most: int) -> PlacementConstraint:
    name = words[0].text.lower()
    if not tags:
        raise _error(words[0].place, f"{name} needs `node` or `rack`, and tags: {name},node,zk")
    scope = words[1].text.lower()
    if scope not in (NODE, RACK):
        raise _error(words[1].place, f"expected `node` or `rack`, not {_quote(words[1].text)}")
    targets = tuple(dict.fromkeys(_target(tag) for tag in tags))
    return PlacementConstraint(
        simple=SimpleConstraint(
            scope=scope, targets=targets, minimum=least, maximum=most, operation=AttributeOperation.NONE
        )
    )


def _target(word: _Word) -> PlacementTarget:
    """Return the target of one tag. Each tag is a separate target, so that all of them must match, not any."""
    namespace, slash, tag = word.text.rpartition("/")
    first, _, rest = namespace.partition("/")
    if slash and not tag:
        raise _error(word.place, f"{_quote(word.text)} has no tag after the namespace")
    if slash and first in _NAMESPACES_OF:
        if not rest:
            raise _error(word.place, f"{_quote(word.text)} has an incomplete namespace: write {_NAMESPACES_OF[first]}")
    elif slash and namespace not in _NAMESPACES:
        known = ", ".join(f"{each}/..." for each in (*_NAMESPACES, *_NAMESPACES_OF))
        raise _error(word.place, f"{_quote(namespace)} is not a tag namespace; the namespaces are {known}")
    if "=" in tag or any(char.isspace() for char in tag):
        raise _error(word.place, f"{_quote(tag)} is not a tag: it has a blank or = in it")
    return PlacementTarget(type=PlacementTargetType.ALLOCATION_TAG, key=namespace or SELF, values=(tag,))


def _attribute(words: list[_Word]) -> PlacementConstraint:
    found = _ATTRIBUTE.fullmatch(words[0].text)
    if found is None:
        raise _error(words[0].place, "write an attribute as NAME=VALUE or NAME!=VALUE")
    name, operator, value = found[1].strip(), found[2], found[3].strip()
    if not name or not value:
        raise _error(words[0].place, f"write an attribute as NAME=VALUE or NAME!=VALUE, not {_quote(words[0].text)}")
    values = [_Word(value, words[0].place + found.start(3)), *words[1:]]
    for word in values:
        if "=" in word.text or "!" in word.text:
            raise _error(
                word.place,
                f"{_quote(word.text)} is not an attribute value. Join several attributes: and(a=1:b!=2)",
            )
    differs = operator == "!="
    each = [require_attribute(name, value, differs=differs) for value in dict.fromkeys(word.text for word in values)]
    if len(each) == 1:
        return each[0]
    kind = CompositeKind.AND if differs else CompositeKind.OR
    return PlacementConstraint(composite=CompositeConstraint(kind=kind, children=tuple(each)))


def _error(place: int, message: str) -> ConstraintError:
    return ConstraintError(place + 1, message)


def _quote(text: str) -> str:
    return f"`{escape_line(text, _SHOWN)}`"
