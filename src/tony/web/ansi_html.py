"""Convert program output to HTML, with ANSI colours as CSS classes.

Links, cursor movements, window titles and all other control sequences are dropped. Of a line that overwrites itself
(progress bars), only the final text is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from markupsafe import Markup, escape

from tony import control_characters

#: Escape sequences: colours; other control sequences; strings such as links and titles; the rest; a truncated one.
_SEQUENCE = re.compile(
    "\x1b\\[([0-9;:]*)m"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"
    "|(?:\x1b[\\]P^_X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]"
    "|\x1b[^\n]{0,32}$"
)
#: Characters that need processing.
_CONTROL = re.compile("[\b\r\x1b\x90\x98\x9b\x9d-\x9f]")
#: Maximum characters of a line; the number of omitted characters is shown after it.
_MAX_LINE_LENGTH = 20_000
_STATE = re.compile(r"(?:[bdiu]|f\d{1,2}|g\d{1,2})(?:\.(?:[bdiu]|f\d{1,2}|g\d{1,2})){0,5}")
#: The sixteen colours of terminals (RGB), to which other colours are mapped.
_PALETTE = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255), (255,) * 3,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStyle:
    """The style of text.

    Attributes:
        marks: any of `b` bold, `d` dim, `i` italic, `u` underlined.
        colour: 0 to 15; None: default.
        ground: background colour, 0 to 15; None: default.
    """

    marks: frozenset[str] = field(default_factory=frozenset)
    colour: int | None = None
    ground: int | None = None

    def __str__(self) -> str:
        """Return the CSS classes, separated by dots for use in a URL: `b.f1`."""
        words = sorted(self.marks)
        words += [] if self.colour is None else [f"f{self.colour}"]
        words += [] if self.ground is None else [f"g{self.ground}"]
        return ".".join(words)

    @classmethod
    def parse(cls, text: str) -> TextStyle:
        """Parse the form of `__str__`; return `PLAIN` if it is invalid."""
        if not _STATE.fullmatch(text):
            return PLAIN
        words = text.split(".")
        colours = {word[0]: int(word[1:]) for word in words if len(word) > 1 and int(word[1:]) < 16}
        return cls(
            marks=frozenset(word for word in words if len(word) == 1),
            colour=colours.get("f"),
            ground=colours.get("g"),
        )


PLAIN = TextStyle()
_NOTHING = Markup("")


def render_line(text: str, style: TextStyle = PLAIN) -> tuple[Markup, TextStyle]:
    """Return a line as HTML, and the style at the start of the next line."""
    if not text:
        return _NOTHING, style
    left = len(text) - _MAX_LINE_LENGTH
    text = text[:_MAX_LINE_LENGTH]
    if left <= 0 and not _CONTROL.search(text):
        return _render_span(text, style), style
    text = _apply_overwrites(text)
    pieces: list[Markup] = []
    at = 0
    for match in _SEQUENCE.finditer(text):
        pieces.append(_render_span(text[at : match.start()], style))
        if match[1] is not None:
            style = _apply_codes(style, match[1])
        at = match.end()
    pieces.append(_render_span(text[at:], style))
    if left > 0:
        pieces.append(Markup('<span class="cut"> … {} characters more on this line</span>').format(left))
    return Markup("").join(pieces), style


def render_lines(data: bytes, style: TextStyle = PLAIN) -> tuple[list[tuple[int, Markup]], TextStyle]:
    """Return each line as HTML with its offset, and the style at the start of the next line."""
    made: list[tuple[int, Markup]] = []
    offset = 0
    for raw in data.split(b"\n"):
        shown, style = render_line(raw.decode("utf-8", errors="replace"), style)
        made.append((offset, shown))
        offset += len(raw) + 1
    if data.endswith(b"\n") or not data:
        made.pop()
    return made, style


def _apply_overwrites(text: str) -> str:
    """Apply carriage returns and backspaces; return the text that stays visible."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if "\b" in text:
        kept: list[str] = []
        for char in text:
            if char != "\b":
                kept.append(char)
            elif kept:
                kept.pop()
        text = "".join(kept)
    return text


def _render_span(text: str, style: TextStyle) -> Markup:
    if not text:
        return _NOTHING
    shown = escape(control_characters.escape(text.replace("\t", "    ")))
    classes = str(style).replace(".", " ")
    return Markup('<span class="{}">{}</span>').format(classes, shown) if classes else shown


def _apply_codes(style: TextStyle, codes: str) -> TextStyle:
    numbers = iter([int(word[:4]) if word else 0 for word in codes.replace(":", ";").split(";")[:64]])
    for code in numbers:
        style = _apply_code(style, code, numbers)
    return style


def _apply_code(style: TextStyle, code: int, following: Iterator[int]) -> TextStyle:
    marks = {1: "b", 2: "d", 3: "i", 4: "u"}
    off = {22: "bd", 23: "i", 24: "u"}
    if code == 0:
        return PLAIN
    if code in marks:
        return replace(style, marks=style.marks | {marks[code]})
    if code in off:
        return replace(style, marks=style.marks - set(off[code]))
    if code == 7:
        return replace(style, colour=0 if style.ground is None else style.ground, ground=style.colour or 7)
    if code in (38, 48):
        colour = _read_colour(following)
        return replace(style, colour=colour) if code == 38 else replace(style, ground=colour)
    if code in (39, 49):
        return replace(style, colour=None) if code == 39 else replace(style, ground=None)
    for first, shift, of_text in ((30, 0, True), (40, 0, False), (90, 8, True), (100, 8, False)):
        if first <= code < first + 8:
            colour = code - first + shift
            return replace(style, colour=colour) if of_text else replace(style, ground=colour)
    return style


def _read_colour(following: Iterator[int]) -> int | None:
    kind = next(following, 0)
    if kind == 5:
        return _map_palette_colour(next(following, 0))
    if kind == 2:
        return _find_nearest_colour(next(following, 0), next(following, 0), next(following, 0))
    return None


def _map_palette_colour(number: int) -> int:
    """Map a colour of the 256-colour palette to the nearest of the sixteen."""
    if number < 16:
        return number
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return _find_nearest_colour(grey, grey, grey)
    levels = (0, 95, 135, 175, 215, 255)
    number = min(number, 231) - 16
    return _find_nearest_colour(levels[number // 36], levels[number // 6 % 6], levels[number % 6])


def _find_nearest_colour(red: int, green: int, blue: int) -> int:
    def compute_distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(_PALETTE[number], (red, green, blue), strict=True))

    return min(range(16), key=compute_distance)
