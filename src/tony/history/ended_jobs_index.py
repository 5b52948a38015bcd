"""One line for each job that has ended, in `index.jsonl` of the home: what ended never changes.

Whoever closes a job's record adds its line. The index is a cache and nothing more: it may be deleted, torn or out of
date, and what it lacks is read from the records by whoever lists jobs, and added.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable

from tony.dataclass import replace
from tony.model.codec import from_plain, to_plain
from tony.model.job_summary import JobHead as JobHead
from tony.model.job_summary import head_of_report as head_of_report
from tony.model.json_text import loads
from tony.model.layout import Home


def read(home: Home) -> tuple[dict[str, JobHead], int]:
    """Job id -> what the index says of it, and how many lines it has. Lines that make no sense are left out."""
    heads: dict[str, JobHead] = {}
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = [line for line in home.index.read_bytes().splitlines() if line]
    for line in lines:
        with contextlib.suppress(ValueError):
            head = from_plain(JobHead, loads(line, halves=True), ignore_unknown=True)
            if head.state.ended:
                heads[head.job] = head
    return heads, len(lines)


def append_entry(home: Home, heads: Iterable[JobHead]) -> None:
    """Adds jobs that have ended, in one write. A home that cannot be written is left as it is."""
    with contextlib.suppress(OSError):
        descriptor = os.open(home.index, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.write(b"\n" + _lines(heads))  # the line before may be torn


def write(home: Home, heads: Iterable[JobHead]) -> None:
    """Writes the whole index anew. A home that cannot be written is left as it is."""
    with contextlib.suppress(OSError):
        draft = home.index.with_name(f".{home.index.name}.{os.getpid()}.new")
        draft.write_bytes(_lines(heads))
        draft.replace(home.index)


def _lines(heads: Iterable[JobHead]) -> bytes:
    return b"".join(
        json.dumps(to_plain(replace(head, pinned=False)), separators=(",", ":")).encode() + b"\n" for head in heads
    )
