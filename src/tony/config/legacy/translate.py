"""From the original's settings and flags to the values of our job file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tony.config.legacy import (
    files,
    implicit_roles,
    job,
    role_kinds,
    roles,
    site_limits,
    unused_settings,
    warnings,
    yarn_settings,
)
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import Flags
from tony.config.legacy.settings import read
from tony.config.legacy.task_types import shape


def translate(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[DraftJob, bool]:
    """Reads everything that is said about a job of the original.

    Args:
        cwd: absolute; what relative paths are relative to, as in the original.

    Returns:
        The draft, and whether every file could be read.
    """
    settings, problems, complete = read(flags, environ, cwd)
    draft = DraftJob(settings=settings, problems=problems)
    unused_settings.tell(draft)
    types = shape(draft)
    job.translate(draft, flags, types)
    roles.translate(draft, types)
    role_kinds.translate(draft, types)
    files.translate(draft, flags, types)
    yarn_settings.translate(draft, types, cwd)
    implicit_roles.translate(draft, flags, types)
    site_limits.check(draft, types)
    warnings.tell(draft, flags, types, cwd)
    return draft, complete
