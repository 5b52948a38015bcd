"""A LinkedIn TonY job while it is being translated: its settings, read with their types, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tony.config.checks.notes import Note
from tony.config.legacy.settings_sources import LegacyAssignment, LegacyValue, Settings
from tony.config.table.layers import Layer, put
from tony.config.table.settings_table import Key
from tony.config.table.value_format import format_as_toml, format_name
from tony.errors import Problem
from tony.hadoop.configuration.settings import parse_bool, parse_int
from tony.units import format_exact_duration, format_exact_size, parse_size

#: Source of values that were not set: the defaults of LinkedIn TonY.
DEFAULTS = "tony-default.xml"
_SECRET = ("secret", "password")
_BARE_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
#: A comma before another variable.
_NEXT_VARIABLE = re.compile(r",(?=\s*[A-Za-z_][A-Za-z0-9_]*=)", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LegacyOrigin:
    """Source of a value.

    Attributes:
        place: such as `tony.xml:12`.
        key: the key or flag of LinkedIn TonY; empty if there is none.
    """

    place: str
    key: str = ""


#: One item of a list, with its own origin.
LegacyItem = tuple[str, LegacyOrigin]


@dataclass(slots=True, eq=False)
class DraftJob:
    """The settings of a job, the values of the job file with their origins, notes and errors.

    Each `read_` method returns its default for a key that is not set, and reports an invalid value.

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

    def read_text(self, key: str) -> str | None:
        """Return text; None if it is not set or empty."""
        value = self.settings.get(key)
        return value.text if value and value.text else None

    def read_integer(self, key: str, default: int) -> int:
        """Return a whole number."""
        return self._read(key, default, parse_int)

    def read_size(self, key: str) -> str | None:
        """Return a size as in a job file; None if it is not set or invalid."""
        return self._read(key, None, lambda text: format_exact_size(_parse_size(text)))

    def read_seconds(self, key: str, unit: float = 0.001) -> float | None:
        """Return a duration; None if it is off (0 or less), not set, or invalid.

        Args:
            unit: seconds per unit of the number.
        """
        number = self.read_integer(key, 0)
        return number * unit if number > 0 else None

    def read_truth(self, key: str) -> bool:
        """Return true or false; for any other value false, as in LinkedIn TonY, with a note."""
        value = self.settings.get(key)
        if value is None:
            return False
        found = parse_bool(value.text)
        if found is None:
            text = format_as_toml(value.text)
            self.note(value, f"{text} is neither true nor false, and is treated as false, as in LinkedIn TonY.")
        return bool(found)

    def read_words(self, key: str, default: str = "") -> list[str]:
        """Return the items of a list, trimmed; empty ones are skipped."""
        value = self.settings.get(key)
        return [part.strip() for part in (default if value is None else value.text).split(",") if part.strip()]

    def read_items(self, key: str) -> list[LegacyItem]:
        """Return the items of a list, each with its origin."""
        value = self.settings.get(key)
        return [
            (item.strip(), _origin_of(part, key))
            for part in (value.parts if value else ())
            for item in part.text.split(",")
            if item.strip()
        ]

    def read_variables(self, key: str) -> dict[str, LegacyItem]:
        """Parse `A=1,B` to name -> value and origin; a name without `=` has an empty value. Later ones win."""
        found: dict[str, LegacyItem] = {}
        value = self.settings.get(key)
        for part in value.parts if value else ():
            for item in _NEXT_VARIABLE.split(part.text) if part.whole else part.text.split(","):
                name, _, content = item.partition("=")
                if name.strip():
                    found[name.strip()] = content.strip(), _origin_of(part, key)
        return found

    def _read(self, key: str, default: T, parse: Callable[[str], T]) -> T:
        value = self.settings.get(key)
        if value is None or not value.text:
            return default
        try:
            return parse(value.text)
        except ValueError as error:
            self.add_error(value, str(error))
            return default

    def origin(self, key: str) -> LegacyOrigin:
        """Return where a key was set; the defaults if it was not."""
        value = self.settings.get(key)
        return LegacyOrigin(value.place if value else DEFAULTS, key)

    def put(self, key: Key, value: Any, origin: LegacyOrigin) -> None:
        """Set a setting of the job file."""
        put(self.values, key, value)
        self.origins[key] = origin

    def put_list(self, key: Key, items: list[LegacyItem]) -> None:
        """Set a list, each item with its own origin. An empty list sets nothing."""
        if items:
            self.put(key, [text for text, _ in items], items[0][1])
            for number, (_, origin) in enumerate(items):
                self.origins[(*key, str(number))] = origin

    def note(self, value: LegacyValue, message: str) -> None:
        """Add a note on a setting that has no effect, or a different one."""
        self.notes.append(Note(key=format_name(value.key), message=message, source=value.place))

    def note_key(self, key: str, message: str) -> None:
        """Add a note on a key, if it is set."""
        if value := self.settings.get(key):
            self.note(value, message)

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


def format_seconds(seconds: float) -> str:
    """Return a duration as in a job file, without floating-point noise."""
    return format_exact_duration(round(seconds, 6))


def _parse_size(text: str) -> int:
    """Return the bytes of `2g`, `512m` or a bare number of MiB."""
    cleaned = text.strip()
    try:
        return parse_size(f"{cleaned}m" if _BARE_NUMBER.fullmatch(cleaned) else cleaned)
    except ValueError as error:
        raise ValueError(f"{error} A bare number is MiB.") from None


def _origin_of(part: LegacyAssignment, key: str) -> LegacyOrigin:
    """Return the origin of a part of a list; for a flag its name is enough."""
    return LegacyOrigin(part.place, "" if part.place.startswith("--") and part.place != "--conf" else key)
