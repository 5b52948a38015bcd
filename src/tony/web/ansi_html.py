"""A program's output as HTML: its colours, as classes, and nothing else that steers.

Links, cursor movements, titles of windows and all other control sequences are dropped. Of a line that overwrites itself
only the last state is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from tony.dataclass import dataclass, field, replace
from tony.web.page_text import plain

#: Escape sequences: colours; other control sequences; strings such as links and titles; the rest; and one cut off.
_SEQUENCE = re.compile(
    "\x1b\\[([0-9;:]*)m"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"
    "|(?:\x1b[\\]P^_X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]"
    "|\x1b[^\n]{0,32}$"
)
#: What makes a line more than its characters.
_STEERS = re.compile("[\b\r\x1b\x90\x98\x9b\x9d-\x9f]")
#: Characters of one line that are shown; of what follows it is said how much it is.
_LONGEST = 20_000
_STATE = re.compile(r"(?:[bdiu]|f\d{1,2}|g\d{1,2})(?:\.(?:[bdiu]|f\d{1,2}|g\d{1,2})){0,5}")
#: The sixteen colours as terminals have them, to find the one that is nearest to another.
_PALETTE = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255), (255,) * 3,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStyle:
    """How text looks from here on.

    Attributes:
        marks: of `b` bold, `d` dim, `i` italic, `u` underlined.
        colour, ground: 0 to 15; None: the page's own.
    """

    marks: frozenset[str] = field(default_factory=frozenset)
    colour: int | None = None
    ground: int | None = None

    def __str__(self) -> str:
        """As classes, and as an address carries it on: `b.f1`."""
        words = sorted(self.marks)
        words += [] if self.colour is None else [f"f{self.colour}"]
        words += [] if self.ground is None else [f"g{self.ground}"]
        return ".".join(words)

    @classmethod
    def parse(cls, text: str) -> TextStyle:
        """Reads it back; what makes no sense is no style."""
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


def line(text: str, style: TextStyle = PLAIN) -> tuple[Markup, TextStyle]:
    """One line as HTML, and how the next one begins."""
    if not text:
        return _NOTHING, style
    left = len(text) - _LONGEST
    text = text[:_LONGEST]
    if left <= 0 and not _STEERS.search(text):
        return _span(text, style), style
    text = _visible(text)
    pieces: list[Markup] = []
    at = 0
    for match in _SEQUENCE.finditer(text):
        pieces.append(_span(text[at : match.start()], style))
        if match[1] is not None:
            style = _changed(style, match[1])
        at = match.end()
    pieces.append(_span(text[at:], style))
    if left > 0:
        pieces.append(Markup('<span class="cut"> … {} characters more on this line</span>').format(left))
    return Markup("").join(pieces), style


def lines(data: bytes, style: TextStyle = PLAIN) -> tuple[list[tuple[int, Markup]], TextStyle]:
    """Each line as HTML with the offset at which it begins, and how the next one begins."""
    made: list[tuple[int, Markup]] = []
    offset = 0
    for raw in data.split(b"\n"):
        shown, style = line(raw.decode("utf-8", errors="replace"), style)
        made.append((offset, shown))
        offset += len(raw) + 1
    if data.endswith(b"\n") or not data:
        made.pop()
    return made, style


def _visible(text: str) -> str:
    """What is left to be seen of a line that overwrites itself."""
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


def _span(text: str, style: TextStyle) -> Markup:
    if not text:
        return _NOTHING
    shown = escape(plain(text.replace("\t", "    ")))
    classes = str(style).replace(".", " ")
    return Markup('<span class="{}">{}</span>').format(classes, shown) if classes else shown


def _changed(style: TextStyle, codes: str) -> TextStyle:
    numbers = iter([int(word[:4]) if word else 0 for word in codes.replace(":", ";").split(";")[:64]])
    for code in numbers:
        style = _one(style, code, numbers)
    return style


def _one(style: TextStyle, code: int, following: Iterator[int]) -> TextStyle:
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
        colour = _extended(following)
        return replace(style, colour=colour) if code == 38 else replace(style, ground=colour)
    if code in (39, 49):
        return replace(style, colour=None) if code == 39 else replace(style, ground=None)
    for first, shift, of_text in ((30, 0, True), (40, 0, False), (90, 8, True), (100, 8, False)):
        if first <= code < first + 8:
            colour = code - first + shift
            return replace(style, colour=colour) if of_text else replace(style, ground=colour)
    return style


def _extended(following: Iterator[int]) -> int | None:
    kind = next(following, 0)
    if kind == 5:
        return _of_256(next(following, 0))
    if kind == 2:
        return _nearest(next(following, 0), next(following, 0), next(following, 0))
    return None


def _of_256(number: int) -> int:
    if number < 16:
        return number
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return _nearest(grey, grey, grey)
    levels = (0, 95, 135, 175, 215, 255)
    number = min(number, 231) - 16
    return _nearest(levels[number // 36], levels[number // 6 % 6], levels[number % 6])


def _nearest(red: int, green: int, blue: int) -> int:
    def distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(_PALETTE[number], (red, green, blue), strict=True))

    return min(range(16), key=distance)
