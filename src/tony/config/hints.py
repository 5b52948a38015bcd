"""What is worth knowing of a job's settings and is no mistake: which are not needed any more, and why."""

from __future__ import annotations

from collections.abc import Sequence

from tony.dataclass import dataclass

#: So few notes are told as they are.
_TOLD = 3
#: As many names are told when notes are told shortly.
_LISTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One remark.

    Attributes:
        key: the setting that it is about; empty for the whole.
        message: a sentence.
        source: where the setting stands; None if nowhere.
    """

    key: str
    message: str
    source: str | None = None

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.message}" if self.key else self.message


def in_short(notes: Sequence[Note], job_file: str | None) -> tuple[str, ...]:
    """What those are told who submit: a few notes as they are, many in one sentence that says where to read them."""
    if len(notes) <= _TOLD:
        return tuple(map(str, notes))
    names = list(dict.fromkeys(note.key for note in notes if note.key))
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED + 1 else []
    listed = ", ".join([*(names[:_LISTED] if more else names), *more])
    # `validate` takes no flags of the original, and without them many a job of it is not whole.
    where = f"`tony convert {job_file} [FLAGS]` tells why" if job_file else "docs/migrating.md tells why"
    has, means = ("1 setting has", "means") if len(names) == 1 else (f"{len(names)} settings have", "mean")
    return (f"{has} no effect here or {means} something else ({listed}); {where}.",)
