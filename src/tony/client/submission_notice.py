"""What a submission tells its user meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubmissionNotice:
    """A message about a submission, such as the size of a packed folder.

    Attributes:
        is_warning: the job may not run as its user expects.
    """

    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"warning: {self.text}" if self.is_warning else self.text


OnNotice = Callable[[SubmissionNotice], None]
