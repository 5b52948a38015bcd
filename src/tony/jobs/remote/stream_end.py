"""The search for the end of a task's output, in requests whose answers are a single byte long."""

from __future__ import annotations

from dataclasses import dataclass

from tony.model.ids import TaskId
from tony.model.log_name import LogName
from tony.protocol.output_messages import ReadLog


@dataclass(slots=True)
class StreamEndSearch:
    """Finds how far a stream had been printed at some time after the search began.

    It asks what follows the known position, then for the end of that file, and again until no later file follows. What
    is printed meanwhile does not count.

    Attributes:
        name, offset: the position: a file, and bytes that its program had printed before. No name: nothing was printed.
        is_found: it is the end.
    """

    name: LogName | None
    offset: int
    is_found: bool = False
    _asks_for_tail: bool = False
    _measured: LogName | None = None  # the file whose end is known

    def build_request(self, reader: int, task: TaskId, stream: str) -> ReadLog:
        """Return the next request."""
        name = self.name.file if self.name else ""
        return ReadLog(
            reader=reader, task=task, stream=stream, name=name, offset=self.offset, most=1, tail=self._asks_for_tail
        )

    def take(self, name: LogName | None, end: int) -> None:
        """Take the answer to the last request: the file and the end of its data; None if there was no data."""
        if self._asks_for_tail:  # without an answer, another executor runs the task now
            self.offset, self._measured, self._asks_for_tail = end, name, False
        elif name is None or name == self._measured:
            self.is_found = True
        else:
            self.name, self.offset, self._asks_for_tail = name, 0, True

    def is_reached(self, name: LogName | None, offset: int) -> bool:
        """Return True if a copy that ends there has everything up to the end."""
        if not self.is_found or self.name is None:
            return self.is_found
        return name is not None and (name, offset) >= (self.name, self.offset)
