"""Finds lines that say why a program failed in its output, while that is written.

Most pieces of output contain none of the words below and are only searched for them and for line ends; of a flood, only
the beginning and the end are. Of what is found the first lines and the last ones are kept.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tony.diagnosis.line_rules import find_rule, get_rule, is_harmless
from tony.diagnosis.rule import Rule
from tony.diagnosis.rules.programs import LAST_LINE
from tony.model.diagnosis import EvidenceLine, LineMeaning

#: Every line that a rule matches contains one of these in some case, or ends a traceback, which begins with one.
#: As few as possible: each costs a tenth of a millisecond for 256 KiB of output.
_WORDS = (
    *(b"traceback", b"error", b"xception", b"fail", b"fatal", b"timed out", b"timeout", b"kill", b"abort", b"denied"),
    *(b"not found", b"no such", b"can't", b"cannot", b"closed", b"peer", b"panic", b"fault", b"no module", b"xid"),
    *(b"assert", b"terminat", b"not enough", b"unavailable", b"subset of", b"memory", b"barrier", b"detected"),
    *(b"what():", b"exceeded", b"unbound", b" lost", b"gzip", b"critical"),
)
_LINE_END = re.compile(rb"\r\n|\n|\r")
_TRACEBACK = b"Traceback (most recent call last)"
#: Between two tracebacks of one chain; what follows is the exception that the first one led to.
_RAISED_WHILE_HANDLING = b"During handling of the above exception"
_CHAINED = (_RAISED_WHILE_HANDLING, b"The above exception was the direct cause")
#: Exceptions by which a program finds out that something is missing, and continues.
_LOOKUP = re.compile(r"(KeyError|IndexError|AttributeError|StopIteration|ImportError|ModuleNotFoundError|Empty)\b")
#: In front of the lines of an exception group.
_GROUP = re.compile(rb"^ +(?:[|] ?|[+] (?=Exception Group))")
#: A warning of Python; its next line is the source line.
_WARNING = re.compile(rb"\w:\d+: \w*Warning: ")
#: A line of a log at which a traceback hangs: the program caught that exception.
_LOG_RECORD = re.compile(rb"\b(ERROR|CRITICAL|EXCEPTION|FATAL)\b")
_EXCEPTION = re.compile(rb"^[A-Za-z_][\w.]*(?:: .*)?$")
#: A progress bar, or a metric.
_PROGRESS = re.compile(r"\d%\||it/s|^\W*(epoch|step|loss|iter(ation)?)\b\W{0,3}\d", re.IGNORECASE)
#: Terminal sequences for colours and styles.
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
#: Ranks in front of a line: those of tony, and those of PyTorch.
_LABELS = re.compile(rb"^(?:\[(?:rank)?\d+\]:? ?)*")
#: Bytes of a line that are kept.
_MAX_LINE_BYTES = 500
#: Bytes of a line whose end has not arrived.
_MAX_PARTIAL_BYTES = 1 << 16
#: Lines kept from the beginning, and from the end.
_FIRST_LINES = 16
_LAST_LINES = 48
#: Bytes of a flood that are searched at once, and a second: of the rest only the end is, once there is time for it.
_MAX_BUDGET = 16 << 20
_SEARCHED_PER_SECOND = 4 << 20
#: Bytes that cost as much to search as one line costs to examine.
_LINE_COST = 4096
_MAX_UNSEARCHED_BYTES = 1 << 17
#: Seconds between two found lines that separate two incidents.
_INCIDENT_SECONDS = 30.0
#: Minimum number of lines after an error, and of seconds until the last one, for a program that survived it.
_SURVIVED_LINES = 200
_SURVIVED_SECONDS = 5.0
#: Lines of evidence for one program.
MAX_EVIDENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    """A line that a rule matches.

    Attributes:
        at: seconds, of any clock.
        follows: it is an exception raised while an earlier one, which was found too, was handled.
        was_caught: it is an exception that the program logged.
    """

    stream: str
    number: int
    at: float
    text: str
    rule: Rule
    follows: bool
    was_caught: bool


class OutputScanner:
    """Searches one stream.

    Attributes:
        stream: `out` or `err`.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._partial = b""
        self._lines = 0
        self._budget = float(_MAX_BUDGET)
        self._fed_at = 0.0
        self._unsearched = b""
        self._in_traceback = self._is_chained = self._is_handling = self._is_logged = False
        self._before = self._source = self._recent = b""
        self._recent_at = 0.0
        self._first: list[FoundLine] = []
        self._last: deque[FoundLine] = deque(maxlen=_LAST_LINES)

    @property
    def found(self) -> Sequence[FoundLine]:
        """The found lines, oldest first."""
        return [*self._first, *self._last]

    @property
    def line_count(self) -> int:
        """The number of lines so far."""
        return self._lines

    def feed(self, data: bytes, now: float) -> None:
        """Take a piece of output that arrived at `now`."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._partial = (self._partial + data)[:_MAX_PARTIAL_BYTES]
            return
        whole, self._partial = self._partial + data[:end], data[end:][:_MAX_PARTIAL_BYTES]
        self._recent, self._recent_at = whole[-2 * _MAX_LINE_BYTES :], now
        self._budget = min(self._budget + (now - self._fed_at) * _SEARCHED_PER_SECOND, _MAX_BUDGET)
        self._fed_at = now
        if self._budget >= 0:
            self._search_unsearched(now)
            self._search(whole, now)
        else:
            self._lines += _count_lines(whole)
            self._unsearched = (self._unsearched + whole)[-_MAX_UNSEARCHED_BYTES:]

    def end(self, now: float) -> None:
        """Take the last line, which may have no end, and what was not searched."""
        if self._partial:
            self.feed(b"\n", now)
        self._search_unsearched(now)

    def _search_unsearched(self, now: float) -> None:
        text, self._unsearched = self._unsearched, b""
        if text:
            self._lines -= _count_lines(text)
            self._search(text, now)

    def _search(self, whole: bytes, now: float) -> None:
        self._budget -= len(whole)
        if self._in_traceback or _contains_word(whole):
            self._examine(whole, now)
        else:
            self._lines += _count_lines(whole)
            self._before = b""

    def find_last_line(self) -> FoundLine | None:
        """Return the last line with text, if it may be an error message."""
        text = _LINE_END.split(self._recent.rstrip())[-1][-_MAX_LINE_BYTES:].decode(errors="replace").rstrip()
        rule = get_rule(LAST_LINE)
        if not text or rule is None or is_harmless(text) or _PROGRESS.search(text):
            return None
        number = self._lines - len(_LINE_END.split(self._recent[len(self._recent.rstrip()) :])) + 2
        return FoundLine(
            stream=self.stream,
            number=number,
            at=self._recent_at,
            text=text,
            rule=rule,
            follows=False,
            was_caught=False,
        )

    def _examine(self, whole: bytes, now: float) -> None:
        for line in _LINE_END.split(whole)[:-1]:
            self._lines += 1
            if self._in_traceback or _contains_word(line):
                self._budget -= _LINE_COST
                self._examine_line(line[:_MAX_LINE_BYTES], now)
            self._before = line[:_MAX_LINE_BYTES]

    def _examine_line(self, line: bytes, now: float) -> None:
        line = _COLOURS.sub(b"", line)
        bare = line[_LABELS.match(line).end() :]  # type: ignore[union-attr] # it matches anything
        bare = _GROUP.sub(b"", bare)
        if _TRACEBACK in bare:
            self._in_traceback = True
            self._is_logged = not self._is_chained and _LOG_RECORD.search(self._before) is not None
        elif bare.startswith(_CHAINED):
            self._is_chained, self._is_handling = True, bare.startswith(_RAISED_WHILE_HANDLING)
        elif self._in_traceback:
            if bare[:1] in (b" ", b"\t", b"|", b"+", b"") or bare[:1] == b"^":
                self._note_source(bare)
                return
            self._in_traceback = False
            self._keep(line, bare, now, is_exception=_EXCEPTION.match(bare) is not None)
        elif not (bare.startswith(b"  ") and _WARNING.search(self._before)):  # the source line that warned
            self._keep(line, bare, now, is_exception=False)

    def _note_source(self, bare: bytes) -> None:
        """Remember the source line of the innermost frame."""
        text = bare.strip()
        if text and not text.startswith((b"File ", b"^", b"~", b"+", b"|")):
            self._source = text

    def _keep(self, line: bytes, bare: bytes, now: float, *, is_exception: bool) -> None:
        text = line.decode(errors="replace").rstrip()
        rule = find_rule(bare.decode(errors="replace").rstrip())
        if rule is None and is_exception:
            rule = find_rule("Exception")  # a class with any name ends a traceback
        if rule is None:
            return
        follows = is_exception and self._is_chained
        if follows and self._is_handling and not self._source.startswith(b"raise"):
            follows = not self._replace_lookup()
        if is_exception:
            self._is_chained = self._is_handling = False
        found = FoundLine(
            stream=self.stream,
            number=self._lines,
            at=now,
            text=text,
            rule=rule,
            follows=follows,
            was_caught=is_exception and self._is_logged,
        )
        if len(self._first) < _FIRST_LINES:
            self._first.append(found)
        else:
            self._last.append(found)

    def _replace_lookup(self) -> bool:
        """Forget the last exception if it only said that something is not there; return True if it did.

        What the program did instead then failed, without raising anything itself.
        """
        kept = self._last or self._first
        if kept and _LOOKUP.match(kept[-1].text):
            kept.pop()
            return True
        return False


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") or text.count(b"\r")


def _contains_word(text: bytes) -> bool:
    text = text.lower()
    return any(word in text for word in _WORDS)


def select_evidence(
    scanners: Sequence[OutputScanner], ended_at: float, *, has_exited: bool = False
) -> tuple[EvidenceLine, ...]:
    """Return the lines that say why a program ended at `ended_at`, the decisive one first.

    The decisive one is the first line about the program itself in the last incident that has one: earlier errors were
    survived, exceptions raised while that one was handled follow from it, and what the program said about its peers, or
    its launcher about the program, is not the cause. Where no rule finds one, the last line of stderr is.

    Args:
        has_exited: it exited by itself, with an exit code.
    """
    line_counts = {scanner.stream: scanner.line_count for scanner in scanners}
    found = [line for scanner in scanners for line in scanner.found]
    lines = sorted(found, key=lambda line: line.at)
    incident = _find_last_incident(lines, line_counts)
    own = [line for line in incident if line.rule.meaning is LineMeaning.CAUSE]
    peers = [line for line in incident if line.rule.meaning is LineMeaning.CONSEQUENCE]
    decisive = _find_decisive(own) or (peers[0] if peers else (incident[0] if incident else None))
    if decisive is None and has_exited:
        last = [line for scanner in scanners if scanner.stream == "err" and (line := scanner.find_last_line())]
        decisive = last[0] if last and ended_at - last[0].at <= _SURVIVED_SECONDS else None
    if decisive is None:
        return ()
    others = [line for line in (*own, *peers) if line is not decisive and line.text != decisive.text]
    return tuple(_build_evidence(line, ended_at) for line in (decisive, *others[: MAX_EVIDENCE - 1]))


def _find_decisive(own: Sequence[FoundLine]) -> FoundLine | None:
    """Return the first of a program's own lines; one of a special rule before a generic one of the same moment.

    An exception that ended something precedes those that the program caught and logged.
    """
    if not own:
        return None
    first = next((line for line in own if not line.was_caught and line.rule.name not in _VAGUE), own[0])
    near = [line for line in own if abs(line.at - first.at) <= 1.0 and not line.follows]
    return min(near or [first], key=lambda line: (line.rule.name in _GENERIC) + 2 * (line.rule.name in _VAGUE))


#: Rules for any line that looks like an error.
_GENERIC = frozenset({"python-exception", "panic", "segmentation-fault", "java-exception"})
_VAGUE = frozenset({"script-error", "log-error"})


def _find_last_incident(lines: Sequence[FoundLine], line_counts: dict[str, int]) -> Sequence[FoundLine]:
    """Return the found lines since the last long pause, without those after which the program went on printing."""
    start = 0
    for number in range(1, len(lines)):
        if lines[number].at - lines[number - 1].at > _INCIDENT_SECONDS:
            start = number
    incident = [*lines[start:]]

    def is_near_end(line: FoundLine) -> bool:
        return line_counts[line.stream] - line.number <= _SURVIVED_LINES

    if any(line.rule.meaning is LineMeaning.CAUSE for line in incident) or not start:
        end = incident[-1].at if incident else 0.0
        last = [line for line in incident if end - line.at <= _SURVIVED_SECONDS or is_near_end(line)]
        return last or incident
    before = [line for line in lines[:start] if is_near_end(line)]
    return [*(line for line in before if line.rule.meaning is LineMeaning.CAUSE), *incident]


def _build_evidence(line: FoundLine, ended_at: float) -> EvidenceLine:
    ago = round(max(0.0, ended_at - line.at), 3)
    return EvidenceLine(stream=line.stream, number=line.number, text=line.text, ago=ago, rule=line.rule.name)
