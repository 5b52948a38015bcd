"""Index of finished jobs: one line each in `index.jsonl` of the state directory.

A job's line is added when its summary is written. The index is only a cache: it may be deleted, torn or out of date.
`directory_scan.scan` reads missing jobs from their directories and adds them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import replace

from tony.linux.files import replace_file
from tony.model.codec import from_plain, to_plain
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home
from tony.model.strict_json import loads


def read(home: Home) -> tuple[dict[str, JobHead], int]:
    """Return the indexed jobs by id, and the number of lines in the file. Invalid lines are skipped."""
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
    """Add finished jobs in a single write. A read-only state directory is not an error."""
    with contextlib.suppress(OSError):
        descriptor = os.open(home.index, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.write(b"\n" + _lines(heads))  # the line before may be torn


def write(home: Home, heads: Iterable[JobHead]) -> None:
    """Rewrite the whole index. A read-only state directory is not an error."""
    with contextlib.suppress(OSError):
        replace_file(home.index, _lines(heads))


def _lines(heads: Iterable[JobHead]) -> bytes:
    return b"".join(
        json.dumps(to_plain(replace(head, pinned=False)), separators=(",", ":")).encode() + b"\n" for head in heads
    )
