"""Searches the output of a program for lines that prove why it failed, while that is written.

Most pieces of output contain none of the words below and are only searched for them and for line ends; of a flood, only
the beginning and the end are. Of what is found the first lines and the last ones are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tony.diagnosis.line_examiner import MAX_LINE_BYTES, LineExaminer
from tony.diagnosis.line_rules import LineRules, get_rule, is_harmless, may_be_error
from tony.diagnosis.rule import Rule
from tony.diagnosis.rule_match import RuleMatch
from tony.diagnosis.rules.programs import LAST_LINE

#: Every line that a rule matches contains one of these in some case, or ends a traceback, which begins with one.
#: As few as possible: each costs a tenth of a millisecond for 256 KiB of output.
_WORDS = (
    *(b"traceback", b"error", b"xception", b"fail", b"fatal", b"timed out", b"timeout", b"kill", b"abort", b"denied"),
    *(b"not found", b"no such", b"can't", b"cannot", b"closed", b"peer", b"panic", b"fault", b"no module", b"xid"),
    *(b"assert", b"terminat", b"not enough", b"unavailable", b"subset of", b"memory", b"barrier", b"detected"),
    *(b"what():", b"exceeded", b"unbound", b" lost", b"gzip", b"critical", b"could not", b"unable to"),
    *(b"evicted", b"low on resource", b"are available: "),
)
_WORD = re.compile(r"[^\W\d_]{3}")
#: Bytes of a line whose end has not arrived.
_MAX_PARTIAL_BYTES = 1 << 16
#: Bytes of a flood that are searched at once, and a second: of the rest only the end is, once there is time for it.
_MAX_BUDGET = 16 << 20
_SEARCHED_PER_SECOND = 4 << 20
#: Bytes that cost as much to search as one line costs to examine.
_LINE_COST = 4096
#: Bytes of a log record in JSON that are searched.
_MAX_RECORD_BYTES = 1 << 14
_MAX_UNSEARCHED_BYTES = 1 << 17


class OutputScanner:
    """Searches one stream.

    A carriage return, with which a progress bar is drawn again, ends a text but no line: lines are counted as editors
    and the pages of logs do.

    Args:
        rules: to look for; None: those of tony alone.

    Attributes:
        stream: `out` or `err`.
    """

    def __init__(self, stream: str, rules: LineRules | None = None) -> None:
        self.stream = stream
        rules = rules or LineRules()
        self._words = (*_WORDS, *rules.words)
        self._partial = b""
        self._lines = 0
        self._budget = float(_MAX_BUDGET)
        self._fed_at = 0.0
        self._unsearched = b""
        self._recent = b""
        self._recent_at = 0.0
        self._examiner = LineExaminer(stream, rules)

    @property
    def found(self) -> Sequence[RuleMatch]:
        """The found lines, oldest first."""
        return self._examiner.found

    @property
    def line_count(self) -> int:
        """The number of whole lines so far."""
        return self._lines

    def feed(self, data: bytes, now: float) -> None:
        """Take a piece of output that arrived at `now`."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._partial = (self._partial + data)[:_MAX_PARTIAL_BYTES]
            return
        whole, self._partial = self._partial + data[:end], data[end:][:_MAX_PARTIAL_BYTES]
        self._recent, self._recent_at = whole[-2 * MAX_LINE_BYTES :], now
        self._budget = min(self._budget + (now - self._fed_at) * _SEARCHED_PER_SECOND, _MAX_BUDGET)
        self._fed_at = now
        if self._budget >= 0:
            self._search_unsearched(now)
            self._search(whole, now)
        else:
            self._lines += whole.count(b"\n")
            self._unsearched = (self._unsearched + whole)[-_MAX_UNSEARCHED_BYTES:]

    def end(self, now: float) -> None:
        """Take the last line, which may have no end, and what was not searched."""
        if self._partial:
            self.feed(b"\n", now)
        self._search_unsearched(now)

    def _search_unsearched(self, now: float) -> None:
        text, self._unsearched = self._unsearched, b""
        if text:
            self._lines -= text.count(b"\n")
            self._search(text, now)

    def _search(self, whole: bytes, now: float) -> None:
        self._budget -= len(whole)
        if self._examiner.in_traceback or self._examiner.names_left or self._contains_word(whole):
            self._examine(whole, now)
        else:
            self._lines += whole.count(b"\n")
            self._examiner.skip(whole[-MAX_LINE_BYTES:].rstrip(b"\r\n").rpartition(b"\n")[2])

    def find_last_line(self) -> RuleMatch | None:
        """Return the last line, if it may be an error message: of those with words, and above the level of warnings."""
        rule, last = get_rule(LAST_LINE), self._find_last_number()
        for back, line in enumerate(reversed(self._recent.rstrip().split(b"\n"))):
            text = line.rstrip().rpartition(b"\r")[2][-MAX_LINE_BYTES:].decode(errors="replace")
            if rule and _WORD.search(text) and not is_harmless(text):
                return self._build_last_line(rule, text, last - back) if may_be_error(text) else None
        return None

    def _build_last_line(self, rule: Rule, text: str, number: int) -> RuleMatch:
        return RuleMatch(
            stream=self.stream,
            number=number,
            at=self._recent_at,
            text=text,
            rule=rule,
            follows=False,
            was_caught=False,
        )

    def find_last_exception(self) -> RuleMatch | None:
        """Return the exception of the traceback that ends the stream, if one does."""
        last = self.found[-1] if self.found else None
        is_last = last and last.is_exception and not last.was_caught and last.number == self._find_last_number()
        return last if is_last else None

    def _find_last_number(self) -> int:
        """Return the number of the last line with text."""
        return self._lines + 1 - self._recent[len(self._recent.rstrip()) :].count(b"\n")

    def _examine(self, whole: bytes, now: float) -> None:
        for line in whole.splitlines(keepends=True):
            text = line[:MAX_LINE_BYTES].rstrip(b"\r\n")
            if self._examiner.in_traceback or self._contains_word(line):
                self._budget -= _LINE_COST
                self._examiner.examine(text, self._lines + 1, now)
                if line.startswith(b"{"):
                    self._examiner.examine_record(line[:_MAX_RECORD_BYTES], self._lines + 1, now)
            self._examiner.skip(text)
            self._lines += line.endswith(b"\n")

    def _contains_word(self, text: bytes) -> bool:
        text = text.lower()
        return any(word in text for word in self._words)
