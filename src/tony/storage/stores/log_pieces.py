"""Event logs of jobs in S3: each is a row of objects `events.<n>.jsonl.<number>`, and shown as one file. Pure.

The application master of a job on Kubernetes writes them; an empty one after the first closes the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tony.storage.stores.store_interface import Item

_LOG = re.compile(r"events\.\d{1,9}\.jsonl", re.ASCII)
_PIECE = re.compile(r"(?P<log>events\.\d{1,9}\.jsonl)\.(?P<number>\d{6,9})", re.ASCII)


def is_event_log(name: str) -> bool:
    """Return True if a file is an event log, which may have pieces."""
    return bool(_LOG.fullmatch(name))


def group_log_pieces(items: Sequence[Item]) -> Mapping[str, Sequence[Item]]:
    """Return the name of each log in a folder -> its pieces in order, up to one that is missing or of another owner."""
    logs: dict[str, dict[int, Item]] = {}
    for item in items:
        if match := _PIECE.fullmatch(item.name):
            logs.setdefault(match["log"], {})[int(match["number"])] = item
    found = {}
    for name, pieces in logs.items():
        row = [pieces[0]] if 0 in pieces else []
        while row and (following := pieces.get(len(row))) and following.owner == row[0].owner:
            row.append(following)
        found[name] = row
    return found


def join_log_pieces(items: Sequence[Item]) -> Sequence[Item]:
    """Replace the pieces of each log in a folder by one file."""
    logs = group_log_pieces(items)
    joined = [
        Item(
            name=name,
            folder=False,
            size=sum(piece.size for piece in pieces),
            changed=max(piece.changed for piece in pieces),
            owner=pieces[0].owner,
        )
        for name, pieces in logs.items()
        if pieces
    ]
    return [*(item for item in items if not _PIECE.fullmatch(item.name)), *joined]
