"""A LinkedIn TonY job while it is being translated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tony.config.checks.hints import Note
from tony.config.files.layers import Layer, put
from tony.config.legacy.settings_sources import LegacyAssignment, LegacyValue, Settings
from tony.config.table.settings_table import Key
from tony.config.table.value_format import format_as_toml, format_name
from tony.errors import Problem

#: Source of values that were not set: the defaults of LinkedIn TonY.
DEFAULTS = "tony-default.xml"
_SECRET = ("secret", "password")


@dataclass(frozen=True, slots=True)
class LegacyOrigin:
    """Source of a value.

    Attributes:
        place: such as `tony.xml:12`.
        key: the key or flag of LinkedIn TonY; empty if there is none.
    """

    place: str
    key: str = ""


@dataclass(slots=True, eq=False)
class DraftJob:
    """The values of the job file with their origins, notes and errors.

    Attributes:
        settings: the settings of LinkedIn TonY that are translated.
        values: nested, as in a job file.
        origins: key of a value (or of a list item) -> where it comes from.
    """

    settings: Settings
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Key, LegacyOrigin] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def put(self, key: Key, value: Any, origin: LegacyValue | LegacyOrigin) -> None:
        """Set a setting of the job file."""
        put(self.values, key, value)
        self.origins[key] = _origin(origin)

    def put_list(self, key: Key, items: list[tuple[str, LegacyOrigin]]) -> None:
        """Set a list, each item with its own origin. An empty list sets nothing."""
        if items:
            self.put(key, [text for text, _ in items], items[0][1])
            for number, (_, origin) in enumerate(items):
                self.origins[(*key, str(number))] = origin

    def note(self, value: LegacyValue, message: str) -> None:
        """Add a note on a setting that has no effect, or a different one."""
        self.notes.append(Note(key=format_name(value.key), message=message, source=value.place))

    def note_part(self, origin: LegacyOrigin, message: str) -> None:
        """Add a note on one part of a list."""
        source = origin.place if origin.key else None
        self.notes.append(Note(key=format_name(origin.key or origin.place), message=message, source=source))

    def add_error(self, value: LegacyValue, message: str) -> None:
        """Add an error about a setting."""
        shown = None if any(word in value.key for word in _SECRET) else format_as_toml(value.text)
        self.problems.append(Problem(key=format_name(value.key), message=message, value=shown, source=value.place))

    def layers(self, base: Path) -> tuple[Layer, Layer]:
        """Return the values as two layers: the defaults of LinkedIn TonY, and the settings of the job.

        The first one is weaker than the site's defaults. Settings of roles are all in the second: no site can set them.
        """
        defaults, given = dict[str, Any](), dict[str, Any]()
        for key, value in self.values.items():
            origin = self.origins.get((key,))
            (defaults if origin and origin.place == DEFAULTS else given)[key] = value
        return Layer(values=defaults, where=self._find_line, base=base), Layer(
            values=given, where=self._find_line, base=base
        )

    def _find_line(self, key: Key) -> str:
        candidate = key
        while candidate:
            if candidate in self.origins:
                return self.origins[candidate].place
            candidate = candidate[:-1]
        places = (origin.place for known, origin in self.origins.items() if known[: len(key)] == key)
        return next(places, self.settings.file or "command line")


def origin_of(part: LegacyAssignment, key: str) -> LegacyOrigin:
    """Return the origin of a part of a list; for a flag its name is enough."""
    return LegacyOrigin(part.place, "" if part.place.startswith("--") and part.place != "--conf" else key)


def _origin(origin: LegacyValue | LegacyOrigin) -> LegacyOrigin:
    return LegacyOrigin(origin.place, origin.key) if isinstance(origin, LegacyValue) else origin
