"""Our dataclass decorator behaves as the standard library's does."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tony import dataclass as ours


def classes(dataclass: Any, field: Any) -> dict[str, Any]:
    """The same four classes, made by either decorator."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        """A base."""

        kind: ClassVar[str] = "base"
        name: str
        size: int = 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        """Adds to it."""

        kind: ClassVar[str] = "derived"
        tags: tuple[str, ...] = ()
        secret: str = field(default="", repr=False)
        table: dict[str, int] = field(default_factory=dict)

    @dataclass(frozen=True, slots=True)
    class Place:
        """By position."""

        host: str
        port: int = 80

    @dataclass(slots=True)
    class Changing:
        """May change."""

        items: list[int] = field(default_factory=list)

        def total(self) -> int:
            return sum(self.items)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Nothing:
        """No fields."""

    @dataclass(slots=True, eq=False)
    class Apart:
        """Equal to itself alone."""

        size: int

    return {cls.__name__: cls for cls in (Base, Derived, Place, Changing, Nothing, Apart)}


LIBRARY = classes(dataclasses.dataclass, dataclasses.field)
OURS = classes(ours.dataclass, ours.field)

#: What is done with the classes; what is raised is an answer as well.
DEEDS = {
    "made": lambda c: repr(c["Derived"](name="a", secret="s")),
    "every field": lambda c: repr(c["Derived"](name="a", size=4, tags=("x",), secret="s", table={"a": 1})),
    "by position": lambda c: repr(c["Place"]("h", 1)),
    "by name": lambda c: repr(c["Place"](port=1, host="h")),
    "no field": lambda c: repr(c["Nothing"]()),
    "given twice": lambda c: c["Place"]("h", host="h"),
    "too many by position": lambda c: c["Place"]("h", 1, 2),
    "position and name": lambda c: repr(c["Place"]("h", port=3)),
    "missing": lambda c: c["Derived"](),
    "unknown": lambda c: c["Derived"](name="a", more=1),
    "positional where only names are": lambda c: c["Derived"]("a"),
    "too many": lambda c: c["Nothing"](1),
    "equal": lambda c: c["Derived"](name="a") == c["Derived"](name="a"),
    "unequal": lambda c: c["Derived"](name="a") == c["Derived"](name="b"),
    "another class": lambda c: c["Base"](name="a") == c["Derived"](name="a"),
    "apart": lambda c: c["Apart"](1) == c["Apart"](1),
    "nothing is nothing": lambda c: c["Nothing"]() == c["Nothing"](),
    "hash of equals": lambda c: len({c["Place"]("h"), c["Place"]("h", 80), c["Place"]("i")}),
    "hash of what changes": lambda c: hash(c["Changing"]()),
    "frozen": lambda c: setattr(c["Place"]("h"), "port", 1),
    "frozen, deleted": lambda c: delattr(c["Place"]("h"), "port"),
    "another attribute": lambda c: setattr(c["Changing"](), "other", 1),
    "changes": lambda c: (lambda it: (it.items.append(4), it.total()))(c["Changing"]()),
    "defaults are not shared": lambda c: c["Changing"]().items is c["Changing"]().items,
    "class variable": lambda c: (c["Base"].kind, c["Derived"].kind, c["Derived"](name="a").kind),
    "default is no attribute of the class": lambda c: type(c["Base"].__dict__["size"]).__name__,
    "match": lambda c: c["Place"].__match_args__ + c["Derived"].__match_args__,
    "replaced by the library": lambda c: repr(dataclasses.replace(c["Derived"](name="a", size=9), name="b")),
    "fields, by the library": lambda c: [(it.name, it.repr) for it in dataclasses.fields(c["Derived"])],
    "as a dict, by the library": lambda c: dataclasses.asdict(c["Derived"](name="a")),
    "copied": lambda c: repr(copy.deepcopy(c["Derived"](name="a", table={"b": 1}))),
    "document": lambda c: (c["Derived"].__doc__, c["Derived"].__qualname__, c["Derived"].__module__),
}


def outcome(deed: Any, classes: Any) -> Any:
    try:
        return deed(classes)
    except (TypeError, AttributeError) as error:
        return type(error)


#: The first objects of a class are made without compiling anything, later ones with a compiled `__init__`.
OFTEN = 50


@pytest.mark.parametrize("name", DEEDS)
def test_it_does_what_the_library_does(name: str) -> None:
    """Whatever is done with a class of ours has the result that it has with one of the library, however often."""
    own = classes(ours.dataclass, ours.field)
    expected = outcome(DEEDS[name], classes(dataclasses.dataclass, dataclasses.field))
    assert [expected] * OFTEN == [outcome(DEEDS[name], own) for _ in range(OFTEN)]


@ours.dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, so that pickle finds it."""

    size: int


def test_after_making() -> None:
    """`__post_init__` is called for every object, the first ones too."""

    @ours.dataclass(slots=True)
    class Doubled:
        size: int

        def __post_init__(self) -> None:
            self.size *= 2

    assert [Doubled(n).size for n in range(OFTEN)] == [2 * n for n in range(OFTEN)]


def test_pickled() -> None:
    """A frozen object survives pickling."""
    assert pickle.loads(pickle.dumps(Kept(3))) == Kept(3)


def test_replaced() -> None:
    """Our own `replace` copies all but what is named, and refuses what is no field."""
    derived = OURS["Derived"](name="a", tags=("x",))
    assert repr(ours.replace(derived, name="b")) == repr(
        dataclasses.replace(LIBRARY["Derived"](name="a", tags=("x",)), name="b")
    )
    with pytest.raises(TypeError):
        ours.replace(derived, more=1)


def test_fields() -> None:
    """Our own `fields` tells names and defaults; other classes have none."""
    own = [(it.name, it.default is ours.MISSING) for it in ours.fields(OURS["Derived"])]
    library = [(it.name, it.default is dataclasses.MISSING) for it in dataclasses.fields(LIBRARY["Derived"])]
    assert own == library
    assert (ours.is_dataclass(OURS["Place"]), ours.is_dataclass(OURS["Place"]("h")), ours.is_dataclass(str)) == (
        True,
        True,
        False,
    )


def test_a_subclass_without_the_decorator() -> None:
    """It makes its objects as its base does."""

    special: Any = type("Special", (OURS["Place"],), {})
    assert (special("h").port, type(special("h"))) == (80, special)


def test_what_is_not_supported_is_refused() -> None:
    """A class without slots would be another thing than its author thinks."""
    with pytest.raises(TypeError, match="slots"):
        ours.dataclass(slots=False)(Kept)


def test_the_project_uses_it_everywhere() -> None:
    """One class made the slow way costs as much as twenty."""
    sources = Path(ours.__file__).parent.rglob("*.py")
    slow = [path for path in sources if "from dataclasses import dataclass" in path.read_text(encoding="utf-8")]
    assert slow == [Path(ours.__file__)]  # which names it for type checkers
