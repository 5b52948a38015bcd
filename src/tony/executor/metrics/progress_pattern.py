"""Reads the progress of a program from its output, by a regular expression of the user (`progress_pattern`).

It is searched once per sample in the last output only, so it costs nothing while output flows. A pattern that takes too
long is dropped: it may backtrack endlessly.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
from collections.abc import Iterator, Sequence
from types import FrameType

from tony.executor.metrics.progress_listener import Advance, parse_number, qualify_name
from tony.executor.output.output_capture import Stream

log = logging.getLogger(__name__)

#: Characters of a line that are searched.
_MAX_LINE_CHARACTERS = 2000
_MAX_LINES = 500
#: Seconds that one search of all lines may take.
_TIMEOUT_SECONDS = 0.1
_LINE_END = re.compile(r"\r\n|\n|\r")
#: The label that `output_capture` puts in front of a line, which the program did not print.
_LABEL = re.compile(r"^\[\d+\] ")


class LogPattern:
    """Searches one pattern in the streams of one task attempt.

    Runs in the main thread, where a signal can interrupt it.
    """

    def __init__(self, pattern: str) -> None:
        """Compile a pattern that was validated when the job was submitted."""
        self._pattern: re.Pattern[str] | None = None
        with contextlib.suppress(re.error, RecursionError, OverflowError):  # another version of Python may reject it
            self._pattern = re.compile(pattern)
        self._read = [0, 0]

    def poll(self, streams: Sequence[Stream]) -> Advance | None:
        """Return the progress in lines printed since the last call; the newest value of each group."""
        if self._pattern is None:
            return None
        lines: list[str] = []
        for place, stream in enumerate(streams):
            news, self._read[place] = stream.read_since(self._read[place])
            found_lines = _LINE_END.split(news.decode(errors="replace"))[-_MAX_LINES:]
            lines += [_LABEL.sub("", line) for line in found_lines] if stream.is_labelled else found_lines
        try:
            with _limit_time(_TIMEOUT_SECONDS):
                found = _find_newest(self._pattern, lines)
        except TimeoutError:
            log.warning(
                "progress_pattern took more than %g s for %d lines and is disabled for this task attempt",
                _TIMEOUT_SECONDS,
                len(lines),
            )
            self._pattern = None
            return None
        return _advance(found) if found else None


def _find_newest(pattern: re.Pattern[str], lines: Sequence[str]) -> dict[str, str]:
    """Return the last text that each group has matched."""
    missing = set(pattern.groupindex)
    found: dict[str, str] = {}
    for line in reversed(lines):
        if not missing:
            break
        matched = pattern.search(line[:_MAX_LINE_CHARACTERS]) if line else None
        if matched:
            texts = {name: text for name, text in matched.groupdict().items() if text and name in missing}
            found.update(texts)
            missing -= texts.keys()
    return found


def _advance(found: dict[str, str]) -> Advance:
    numbers = {}
    for name, text in found.items():
        with contextlib.suppress(ValueError):
            numbers[name] = parse_number(text.strip().rstrip("%").replace(",", ""))
    metrics = {}
    for name in numbers.keys() - {"step", "total"}:
        with contextlib.suppress(ValueError):
            metrics[qualify_name(name)] = numbers[name]
    return Advance(numbers.get("step"), numbers.get("total"), metrics)


@contextlib.contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the block after `seconds`: `re` checks for signals while it searches."""

    def raise_timeout(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError

    try:
        before = signal.signal(signal.SIGALRM, raise_timeout)
    except ValueError:  # not the main thread: it cannot be interrupted
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
