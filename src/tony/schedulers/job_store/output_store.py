"""The ends of tasks' output in a job's store: `output.<AM attempt>.<number>.jsonl`, one tail a line.

The newest file of an AM attempt is rewritten until it is full; beyond the limit of a job, its oldest files are deleted.
Each AM attempt writes files of its own: so none has to fence another one. A tail may be stored twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from tony.errors import StorageError
from tony.model.log_file_tail import LogFileTail
from tony.protocol.output_messages import pack_times, unpack_times
from tony.schedulers.job_store.job_store import JobStore
from tony.units import format_bytes

#: Bytes of all files of a job, before they are packed.
MAX_OUTPUT_BYTES = 16 << 20
#: Bytes of one file: one object of a store has them even if they cannot be packed.
_MAX_FILE_BYTES = 512 << 10
#: Bytes of a file that another writer may have made, and of all of them.
_MAX_READ_BYTES = 4 << 20
_MAX_ALL_READ_BYTES = 4 * MAX_OUTPUT_BYTES
_NAME = re.compile(r"output\.(\d{1,9})\.(\d{1,9})\.jsonl")


class OutputStore:
    """Writes the tails that one AM attempt receives. Blocks.

    Args:
        store: the job's files.
    """

    def __init__(self, store: JobStore, attempt: int) -> None:
        self._store = store
        self._attempt, self._number = attempt, 1
        self._lines: dict[str, bytes] = {}  # of the newest file, by the name of the log
        self._size = 0
        self._sizes: dict[tuple[int, int], int] | None = None  # of the older files

    def put(self, tails: Iterable[LogFileTail]) -> None:
        """Store tails. Repeatable.

        Raises:
            InfraError: the store refuses, or cannot be reached.
        """
        for tail in tails:
            line = _encode(tail)
            size = self._size - len(self._lines.get(tail.name, b"")) + len(line)
            if self._lines and size > _MAX_FILE_BYTES:
                self._write()
                self._list_sizes()[self._attempt, self._number] = self._size
                self._number += 1
                self._lines.clear()
                size = len(line)
            self._lines[tail.name], self._size = line, size
        self._write()

    def _list_sizes(self) -> dict[tuple[int, int], int]:
        if self._sizes is None:
            self._sizes = {key: size for key, size in _list_files(self._store).items() if key[0] < self._attempt}
        return self._sizes

    def _write(self) -> None:
        sizes = self._list_sizes()
        while sizes and sum(sizes.values()) + self._size > MAX_OUTPUT_BYTES:
            oldest = min(sizes)
            self._store.delete(_build_name(*oldest))
            del sizes[oldest]
        self._store.put(_build_name(self._attempt, self._number), b"".join(self._lines.values()))


def read_tails(store: JobStore) -> Sequence[LogFileTail]:
    """Return the stored tails of a job, the longest one of each log. Blocks.

    Raises:
        InfraError: they are damaged, or the store cannot be reached.
    """
    found: dict[str, LogFileTail] = {}
    left = _MAX_ALL_READ_BYTES
    for key in sorted(_list_files(store)):
        name = _build_name(*key)
        data = store.read(name, 0, _MAX_READ_BYTES) or b""
        left -= len(data)
        if left < 0:
            raise StorageError(f"{store.path}: the stored output has more than {format_bytes(_MAX_ALL_READ_BYTES)}")
        for line in data.splitlines():
            tail = _decode(name, line)
            known = found.get(tail.name)
            if known is None or _get_order(tail) >= _get_order(known):
                found[tail.name] = tail
    return [*found.values()]


def _get_order(tail: LogFileTail) -> tuple[int, int]:
    return tail.offset + len(tail.data), len(tail.data)


def _list_files(store: JobStore) -> dict[tuple[int, int], int]:
    """Return the sizes of a job's files by AM attempt and number."""
    found = {}
    for name, stored in store.list().items():
        if match := _NAME.fullmatch(name):
            found[int(match[1]), int(match[2])] = stored.size
    return found


def _build_name(attempt: int, number: int) -> str:
    return f"output.{attempt}.{number}.jsonl"


def _encode(tail: LogFileTail) -> bytes:
    # Bytes as characters, most of which take one byte: base64 could hardly be packed.
    fields = {"name": tail.name, "offset": tail.offset, "times": pack_times(tail.times)}
    text = json.dumps({**fields, "data": tail.data.decode("latin-1")}, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _decode(file: str, line: bytes) -> LogFileTail:
    try:
        fields = json.loads(line)
        name, offset, data = fields["name"], fields["offset"], fields["data"].encode("latin-1")
        times = [int(number) for number in fields["times"]]
    except (ValueError, TypeError, LookupError, AttributeError):
        raise StorageError(f"{file} is damaged") from None
    if not isinstance(name, str) or not isinstance(offset, int) or offset < 0:
        raise StorageError(f"{file} is damaged")
    return LogFileTail(name=name, offset=offset, data=data, times=tuple(unpack_times(times)))
