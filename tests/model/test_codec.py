"""The codec reads back what it wrote, nothing that does not fit, and says in a few harmless words what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.message_classes import MESSAGE_CLASSES
from tests.value_strategies import PLAIN, values
from tony.core import events
from tony.core.events import EVENTS, Event
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.submission_record import JobRecord
from tony.protocol.executor_messages import Attach
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import MESSAGES

NOUNS: list[type[Any]] = [JobSpec, JobReport, JobRecord, LaunchContext, *EVENTS.values(), *MESSAGE_CLASSES]


class Colour(Enum):
    """Enum by text."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """Enum by number."""

    LOW = 0
    HIGH = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A nested noun with a rule of its own."""

    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size\nis below zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """One field of every sort."""

    name: str
    try_: int = 0
    ratio: float = 0.0
    on: bool = False
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    task: TaskId | None = None
    pair: tuple[int, str] | None = None
    many: tuple[Inner, ...] = ()
    table: Mapping[str, Inner] = field(default_factory=dict)
    command: str | tuple[str, ...] = ""
    any_: Json = None
    parent: Outer | None = None


FULL = Outer(
    name="a",
    try_=2,
    ratio=0.5,
    on=True,
    colour=Colour.BLUE,
    level=Level.HIGH,
    task=TaskId("worker", 3),
    pair=(1, "x"),
    many=(Inner(), Inner(size=2)),
    table={"k": Inner(size=3)},
    command=("a", "b"),
    any_={"x": [1, None]},
    parent=Outer(name="b"),
)


def test_a_noun_is_written_as_plain_values() -> None:
    """Every sort of field has one plain form, and a trailing underscore is left out."""
    plain = to_plain(FULL)
    expected = {
        "name": "a",
        "try": 2,
        "ratio": 0.5,
        "on": True,
        "colour": "blue",
        "level": 1,
        "task": "worker:3",
        "pair": [1, "x"],
        "many": [{"size": 1}, {"size": 2}],
        "table": {"k": {"size": 3}},
        "command": ["a", "b"],
        "any": {"x": [1, None]},
    }
    assert expected == {key: value for key, value in plain.items() if key != "parent"}
    assert plain["parent"]["name"] == "b"


def test_a_noun_that_holds_itself_is_read_back() -> None:
    """What was written as JSON comes back equal, the recursive field included."""
    assert from_plain(Outer, json.loads(json.dumps(to_plain(FULL)))) == FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """Fields that allow several sorts."""

    colour: Colour | str | None = None
    level: float | int | None = None
    plain: int | str | None = None


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ({"colour": "red"}, Either(colour=Colour.RED)),
        ({"colour": "green"}, Either(colour="green")),
        ({"colour": None, "plain": None}, Either()),
        ({"plain": "1"}, Either(plain="1")),
        ({"plain": 1, "level": 1}, Either(plain=1, level=1.0)),
    ],
)
def test_the_first_sort_that_fits_counts(plain: dict[str, Json], value: Either) -> None:
    """Text may be more than text, and a whole number a fraction, where the field says so first."""
    found = from_plain(Either, plain)
    assert value == found
    assert [type(each) for each in (value.colour, value.level, value.plain)] == [
        type(each) for each in (found.colour, found.level, found.plain)
    ]
    with pytest.raises(DecodeError):
        from_plain(Either, {"plain": True})


@given(st.sampled_from(NOUNS).flatmap(values))
@settings(max_examples=300)
def test_every_noun_of_ours_survives_json(value: Any) -> None:
    """Events, messages, jobs and reports come back equal, whatever is in them."""
    text = json.dumps(to_plain(value), allow_nan=False)
    assert from_plain(type(value), json.loads(text)) == value


def _hostile(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Right forms with wrong things in them: fields dropped, added, or replaced."""

    def spoil(pair: tuple[Any, list[tuple[str, Any]], list[str]]) -> Any:
        plain, wrong, dropped = to_plain(pair[0]), pair[1], pair[2]
        plain.update(wrong)
        for key in dropped:
            plain.pop(key, None)
        return plain

    keys = sorted(to_plain_keys(cls))
    some = st.sampled_from([*keys, "unknown"])
    noun: Any = cls
    return st.tuples(values(noun), st.lists(st.tuples(some, PLAIN), max_size=2), st.lists(some, max_size=1)).map(spoil)


def to_plain_keys(cls: type[Any]) -> list[str]:
    """The names of a class's fields, as written."""
    return [name.removesuffix("_") for name in cls.__dataclass_fields__]


@given(st.sampled_from(NOUNS), st.data(), st.booleans())
@settings(max_examples=300)
def test_hostile_data_gives_a_value_that_fits_or_a_short_error(
    cls: type[Any], data: st.DataObject, ignore_unknown: bool
) -> None:
    """Nothing but DecodeError comes out, its text is short and on one line, and an accepted value can be written."""
    plain = data.draw(PLAIN | _hostile(cls))
    text = ""
    try:
        value = from_plain(cls, plain, ignore_unknown=ignore_unknown)
    except DecodeError as error:
        text = str(error)
    else:
        assert from_plain(cls, to_plain(value)) == value
    assert text.isprintable()
    assert len(text) < 1000


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": 1}, ".name: expected text, not a whole number"),
        ({"try": True}, ".try: expected a whole number, not a truth value"),
        ({"try": 1.0}, ".try: expected a whole number, not a number"),
        ({"try": None}, ".try: expected a whole number, not nothing"),
        ({"on": 1}, ".on: expected a truth value, not a whole number"),
        ({"ratio": True}, ".ratio: expected a number, not a truth value"),
        ({"ratio": float("nan")}, ".ratio: expected a finite number"),
        ({"ratio": float("inf")}, ".ratio: expected a finite number"),
        ({"ratio": 10**400}, ".ratio: number too large"),
        ({"colour": "green"}, ".colour: 'green' is not one of red, blue"),
        ({"colour": ["red"]}, ".colour: expected one of red, blue, not a list"),
        ({"level": True}, ".level: expected one of 0, 1, not a truth value"),
        ({"level": 2}, ".level: 2 is not one of 0, 1"),
        ({"task": "worker"}, ".task: 'worker' is not a task; write role:index, such as worker:0"),
        ({"task": 7}, ".task: expected text, not a whole number"),
        ({"pair": [1]}, ".pair: expected a list of 2, not of 1"),
        ({"pair": "xy"}, ".pair: expected a list of 2, not text"),
        ({"pair": [1, 2]}, ".pair[1]: expected text, not a whole number"),
        ({"many": {}}, ".many: expected a list, not a table"),
        ({"many": [{}, {"size": "x"}]}, ".many[1].size: expected a whole number, not text"),
        ({"many": [{"size": -1}]}, r".many[0]: 'size\nis below zero'"),
        ({"table": []}, ".table: expected a table, not a list"),
        ({"table": {"k": {"size": []}}}, ".table.k.size: expected a whole number, not a list"),
        ({"table": {"k\n\x1b[2J": 1}}, r".table.'k\n\x1b[2J': expected a table for Inner, not a whole number"),
        ({"command": 5}, ".command: expected text or a list, not a whole number"),
        ({"command": ["a", 5]}, ".command[1]: expected text, not a whole number"),
        ({"parent": {}}, ".parent: Outer lacks name"),
        ({"more": 1}, "unknown field 'more' in Outer"),
        ({"try_": 1}, "unknown field 'try_' in Outer"),
    ],
)
def test_an_error_names_its_place(change: dict[str, Any], text: str) -> None:
    """The text names the place inside the value, what was expected there, and what was found; in whole data, too."""
    for rest in ({"name": "a"}, to_plain(Outer(name="a"))):
        with pytest.raises(DecodeError) as caught:
            from_plain(Outer, {**rest, **change})
        assert str(caught.value) == text


def test_only_the_first_of_several_errors_is_reported() -> None:
    """In the order of the data, whether or not it is the order of the class."""
    good = to_plain(FULL)
    assert from_plain(Outer, good) == FULL
    wrong = {**good, "try": "x", "colour": "green", "many": [{"size": 1}, {"size": "x"}]}
    for data, text in (
        (wrong, ".try: expected a whole number, not text"),
        (dict(reversed(wrong.items())), ".many[1].size: expected a whole number, not text"),
        ({**wrong, "new": 1}, ".try: expected a whole number, not text"),
        ({"new": 1, **wrong}, "unknown field 'new' in Outer"),
        ({**good, "many": [{"size": 1}, {"size": -1}]}, r".many[1]: 'size\nis below zero'"),
    ):
        with pytest.raises(DecodeError) as caught:
            from_plain(Outer, data)
        assert str(caught.value) == text
    for same in (dict(reversed(good.items())), MappingProxyType(good)):
        assert from_plain(Outer, same) == FULL


def test_all_missing_fields_are_named() -> None:
    """A message of an older kind of peer that lacks several fields says so at once."""
    with pytest.raises(DecodeError, match=r"^Attach lacks container, host, incarnation, pid$"):
        from_plain(Attach, {"task": "worker:0", "highest_attempt": 1})


def test_long_and_wild_values_are_cut() -> None:
    """A megabyte in the wrong place does not become a megabyte of log."""
    wild = "\x1b[31m" + "x" * 2**20
    for data in ({"name": "a", "colour": wild}, {"name": "a", wild: 1}, {"name": "a", "table": {wild: 1}}):
        with pytest.raises(DecodeError) as caught:
            from_plain(Outer, data)
        assert len(str(caught.value)) < 300
        assert str(caught.value).isprintable()


def test_a_very_deep_value_in_the_wrong_place_is_an_error_like_any_other() -> None:
    """The text of an error never walks into the data."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for key in ("name", "colour", "task", "many", "command"):
        with pytest.raises(DecodeError):
            from_plain(Outer, {"name": "a", key: deep})
    # Take it apart by hand: the interpreter may not free so deep a list in one go everywhere.
    while deep:
        deep = deep.pop()


def test_unknown_fields_are_ignored_on_request() -> None:
    """A newer peer may send more than we understand, at every depth."""
    plain = {"name": "a", "new": 1, "many": [{"size": 2, "new": {}}]}
    assert from_plain(Outer, plain, ignore_unknown=True) == Outer(name="a", many=(Inner(size=2),))


def test_a_whole_number_is_a_number() -> None:
    """JSON of other languages writes 1.0 as 1; the value becomes a float again."""
    value = from_plain(Outer, {"name": "a", "ratio": 2}).ratio
    assert (type(value), value) == (float, 2.0)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_not_written(number: float) -> None:
    """What cannot be read back is refused when it is written, where the error is."""
    with pytest.raises(ValueError, match="JSON numbers are finite"):
        to_plain(Outer(name="a", ratio=number))


@pytest.mark.parametrize("value", [{1: "x"}, {None: 1}, object(), {"x"}, b"bytes", [object()]])
def test_a_value_without_a_plain_form_is_refused(value: object) -> None:
    """A type that the codec does not know is an error of tony's own code."""
    with pytest.raises(TypeError, match="no plain form"):
        to_plain(value)


def test_keys_may_be_enums_and_tasks() -> None:
    """A mapping's keys are written like values, as long as they are text."""
    assert to_plain({Colour.RED: 1}) == {"red": 1}
    assert from_plain(Mapping[Colour, int], {"red": 1}) == {Colour.RED: 1}  # type: ignore[type-abstract]
    assert from_plain(Mapping[TaskId, int], {"ps:0": 1}) == {TaskId("ps", 0): 1}  # type: ignore[type-abstract]


def test_a_type_hint_without_a_decoder_is_a_bug() -> None:
    """A class with a field that no JSON can fill is an error of tony's own code."""
    with pytest.raises(TypeError, match="no decoder for"):
        from_plain(complex, 1)


_EVENT_CLASSES = [cls for cls in vars(events).values() if isinstance(cls, type) and issubclass(cls, Event) and cls.kind]


@pytest.mark.parametrize(("table", "classes"), [(EVENTS, _EVENT_CLASSES), (MESSAGES, MESSAGE_CLASSES)])
def test_every_kind_is_in_its_table(table: Mapping[str, type[Any]], classes: Sequence[type[Any]]) -> None:
    """A class with a word of its own is found under it."""
    assert dict(table) == {cls.kind: cls for cls in classes}


def test_no_field_is_called_like_the_kind() -> None:
    """`k` is the key of a message's and an event's kind."""
    assert [cls for cls in NOUNS if "k" in to_plain_keys(cls)] == []
