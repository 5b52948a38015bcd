"""One entry of the index."""

from __future__ import annotations

from dataclasses import dataclass

from tony.model.job_summary import JobHead


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A job and the location of its directory.

    Attributes:
        place: address of the location.
        path: of the job directory, below the location.
        stamp: changes whenever the directory does; empty if it must be read each time.
        size: bytes of the directory; 0 if unknown.
    """

    head: JobHead
    place: str
    path: str
    stamp: str = ""
    size: int = 0
