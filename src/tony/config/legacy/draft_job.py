"""What a job of the original becomes, while it is being translated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tony.config.hints import Note
from tony.config.layers import Layer, put
from tony.config.legacy.settings import LegacyAssignment, LegacyValue, Settings
from tony.config.settings_table import Key
from tony.config.value_format import format_as_toml, name
from tony.dataclass import dataclass, field
from tony.errors import Problem

#: Where values come from that nobody has set and that the original would have taken.
DEFAULTS = "tony-default.xml"
_SECRET = ("secret", "password")


@dataclass(frozen=True, slots=True)
class LegacyOrigin:
    """Where a value comes from.

    Attributes:
        place: such as `tony.xml:12`.
        key: the original's key or flag; empty if it is none's.
    """

    place: str
    key: str = ""


@dataclass(slots=True, eq=False)
class DraftJob:
    """Values of our job file, where each comes from, what is worth knowing, and what is wrong.

    Attributes:
        settings: the original's, which are translated.
        values: nested, as a job file has them.
        origins: key of a value (or of a list's item) -> where it comes from.
    """

    settings: Settings
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Key, LegacyOrigin] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def put(self, key: Key, value: Any, origin: LegacyValue | LegacyOrigin) -> None:
        """Sets one of our settings."""
        put(self.values, key, value)
        self.origins[key] = _origin(origin)

    def put_list(self, key: Key, items: list[tuple[str, LegacyOrigin]]) -> None:
        """Sets one of our settings that is a list; each item has a place of its own. An empty one sets nothing."""
        if items:
            self.put(key, [text for text, _ in items], items[0][1])
            for number, (_, origin) in enumerate(items):
                self.origins[(*key, str(number))] = origin

    def note(self, value: LegacyValue, message: str) -> None:
        """Tells why a setting has no effect, or another one."""
        self.notes.append(Note(key=name(value.key), message=message, source=value.place))

    def tell(self, origin: LegacyOrigin, message: str) -> None:
        """Tells something of one part of a list."""
        source = origin.place if origin.key else None
        self.notes.append(Note(key=name(origin.key or origin.place), message=message, source=source))

    def blame(self, value: LegacyValue, message: str) -> None:
        """Tells what is wrong with a setting."""
        shown = None if any(word in value.key for word in _SECRET) else format_as_toml(value.text)
        self.problems.append(Problem(key=name(value.key), message=message, value=shown, source=value.place))

    def layers(self, base: Path) -> tuple[Layer, Layer]:
        """The values as two layers: what the original takes where nobody says anything, and what was said.

        The first is the weaker one, below a site's own defaults. What holds for one role is all in the second: no site
        can set it.
        """
        usual, said = dict[str, Any](), dict[str, Any]()
        for key, value in self.values.items():
            origin = self.origins.get((key,))
            (usual if origin and origin.place == DEFAULTS else said)[key] = value
        return Layer(values=usual, where=self._where, base=base), Layer(values=said, where=self._where, base=base)

    def _where(self, key: Key) -> str:
        tried = key
        while tried:
            if tried in self.origins:
                return self.origins[tried].place
            tried = tried[:-1]
        inside = (origin.place for known, origin in self.origins.items() if known[: len(key)] == key)
        return next(inside, self.settings.file or "command line")


def origin_of(part: LegacyAssignment, key: str) -> LegacyOrigin:
    """Where a part of a list comes from; of a flag its name says all."""
    return LegacyOrigin(part.place, "" if part.place.startswith("--") and part.place != "--conf" else key)


def _origin(origin: LegacyValue | LegacyOrigin) -> LegacyOrigin:
    return LegacyOrigin(origin.place, origin.key) if isinstance(origin, LegacyValue) else origin


def nested(values: Mapping[str, Any], key: Key) -> Any:
    """What stands at a key; None if nothing."""
    found: Any = values
    for part in key:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
