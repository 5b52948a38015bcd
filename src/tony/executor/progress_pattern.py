"""How far a program is, from what it prints: a regular expression of the user's (`progress_pattern`).

Looked for once for each sample, in the last of what was printed: so it costs nothing while output flows. A pattern that
takes too long is given up: it may be one that backtracks for ever.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
from collections.abc import Iterator, Sequence
from types import FrameType

from tony.executor.output_capture import Stream
from tony.executor.progress_listener import Advance, number, own_name

log = logging.getLogger(__name__)

#: Characters of a line, and lines, that are looked at.
_LONGEST, _MOST = 2000, 500
#: Seconds that all of it may take.
_PATIENCE = 0.1
_LINE_END = re.compile(r"\r\n|\n|\r")
#: What `rank_output` puts in front of a line: no part of what the program printed.
_LABEL = re.compile(r"^\[\d+\] ")


class LogPattern:
    """Looks for one pattern in the streams of one try. On the event loop's thread: there it can be interrupted."""

    def __init__(self, pattern: str) -> None:
        """Takes a pattern that was checked when the job was submitted."""
        self._pattern: re.Pattern[str] | None = None
        with contextlib.suppress(re.error, RecursionError, OverflowError):  # another Python may think otherwise of it
            self._pattern = re.compile(pattern)
        self._read = [0, 0]

    def look(self, streams: Sequence[Stream]) -> Advance | None:
        """What lines say that were printed since the last time; of each number the newest."""
        if self._pattern is None:
            return None
        lines: list[str] = []
        for place, stream in enumerate(streams):
            news, self._read[place] = stream.since(self._read[place])
            found_lines = _LINE_END.split(news.decode(errors="replace"))[-_MOST:]
            lines += [_LABEL.sub("", line) for line in found_lines] if stream.is_labelled else found_lines
        try:
            with _limited(_PATIENCE):
                found = _newest(self._pattern, lines)
        except TimeoutError:
            log.warning("progress_pattern took more than %g s for %d lines: it is given up", _PATIENCE, len(lines))
            self._pattern = None
            return None
        return _advance(found) if found else None


def _newest(pattern: re.Pattern[str], lines: Sequence[str]) -> dict[str, str]:
    """The last text that each group has matched."""
    missing = set(pattern.groupindex)
    found: dict[str, str] = {}
    for line in reversed(lines):
        if not missing:
            break
        matched = pattern.search(line[:_LONGEST]) if line else None
        if matched:
            texts = {name: text for name, text in matched.groupdict().items() if text and name in missing}
            found.update(texts)
            missing -= texts.keys()
    return found


def _advance(found: dict[str, str]) -> Advance:
    numbers = {}
    for name, text in found.items():
        with contextlib.suppress(ValueError):
            numbers[name] = number(text.strip().rstrip("%").replace(",", ""))
    metrics = {}
    for name in numbers.keys() - {"step", "total"}:
        with contextlib.suppress(ValueError):
            metrics[own_name(name)] = numbers[name]
    return Advance(numbers.get("step"), numbers.get("total"), metrics)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside after so many seconds: `re` looks for signals while it searches."""

    def late(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError

    try:
        before = signal.signal(signal.SIGALRM, late)
    except ValueError:  # not the main thread: nothing can interrupt us
        yield
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
