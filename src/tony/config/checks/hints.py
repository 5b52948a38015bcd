"""Notes on settings that are not errors, such as settings without effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Most notes that are shown in full.
_MAX_FULL_NOTES = 3
#: Most settings that are named in the short form.
_MAX_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note.

    Attributes:
        key: the setting that it is about; empty for the whole job.
        message: a sentence.
        source: where the setting was set; None if nowhere.
    """

    key: str
    message: str
    source: str | None = None

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.message}" if self.key else self.message


def summarize_notes(notes: Sequence[Note], job_file: str | None) -> tuple[str, ...]:
    """Return the notes for `submit`: a few in full, many in one sentence that says where to read them."""
    if len(notes) <= _MAX_FULL_NOTES:
        return tuple(map(str, notes))
    names = list(dict.fromkeys(note.key for note in notes if note.key))
    more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES + 1 else []
    listed = ", ".join([*(names[:_MAX_NAMES] if more else names), *more])
    # Not `validate`: it takes no LinkedIn TonY flags, without which many such jobs are incomplete.
    where = f"`tony convert {job_file} [FLAGS]` explains why" if job_file else "docs/migrating.md explains why"
    has, means = ("1 setting has", "means") if len(names) == 1 else (f"{len(names)} settings have", "mean")
    return (f"{has} no effect here or {means} something else ({listed}); {where}.",)
