"""One record as the index keeps it."""

from __future__ import annotations

from tony.dataclass import dataclass
from tony.model.job_summary import JobHead


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A job, and where its record is.

    Attributes:
        place: address of the location.
        path: of the record, below the location.
        stamp: what changes whenever the record does; empty for one that is to be looked at each time.
        size: bytes of the record; 0 if nobody has added them up.
    """

    head: JobHead
    place: str
    path: str
    stamp: str = ""
    size: int = 0
