"""From the original's settings and flags to the values of our job file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tony.config.original import cluster, doubts, files, job, limits, results, roles, special, unknown
from tony.config.original.draft import Draft
from tony.config.original.flags import Flags
from tony.config.original.settings import read
from tony.config.original.shape import shape


def translate(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[Draft, bool]:
    """Reads everything that is said about a job of the original.

    Args:
        cwd: absolute; what relative paths are relative to, as in the original.

    Returns:
        The draft, and whether every file could be read.
    """
    settings, problems, complete = read(flags, environ, cwd)
    draft = Draft(settings=settings, problems=problems)
    unknown.tell(draft)
    types = shape(draft)
    job.translate(draft, flags, types)
    roles.translate(draft, types)
    results.translate(draft, types)
    files.translate(draft, flags, types)
    cluster.translate(draft, types, cwd)
    special.translate(draft, flags, types)
    limits.check(draft, types)
    doubts.tell(draft, flags, types, cwd)
    return draft, complete
