"""Links to pages of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLink:
    """A web page of the scheduler.

    Attributes:
        label: what it shows.
        href: `http://...` or `https://...`.
    """

    label: str
    href: str
