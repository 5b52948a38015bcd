"""Output of tasks in the Python API: stream names, and lines as text."""

from __future__ import annotations

from tony.jobs.log_names import STREAMS
from tony.jobs.log_reader import LogLine


def selected_streams(stream: str | None) -> tuple[str, ...]:
    """Return the streams for a caller's argument; None means both.

    Raises:
        ValueError: there is no such stream.
    """
    if stream is None:
        return STREAMS
    if stream not in STREAMS:
        raise ValueError(f"stream={stream!r}: write 'out' or 'err', or leave it out for both")
    return (stream,)


def format_line(line: LogLine, *, prefix: bool) -> str:
    """Return a line, with its task in front if there are several: `worker:0 | loss 0.1`."""
    return f"{line.name.task} | {line.text}" if prefix else line.text
