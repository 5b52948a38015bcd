"""Translates LinkedIn TonY settings and flags to the values of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tony.config.legacy import (
    file_settings,
    implicit_roles,
    job_settings,
    missing_file_checks,
    role_kinds,
    roles,
    site_limits,
    unused_settings,
    yarn_settings,
)
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import Flags
from tony.config.legacy.settings_sources import read
from tony.config.legacy.task_types import shape


def translate(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[DraftJob, bool]:
    """Read all settings of a LinkedIn TonY job and translate them.

    Args:
        cwd: absolute base of relative paths.

    Returns:
        The draft, and whether every file could be read.
    """
    settings, problems, complete = read(flags, environ, cwd)
    draft = DraftJob(settings=settings, problems=problems)
    unused_settings.check(draft)
    types = shape(draft)
    job_settings.translate(draft, flags, types)
    roles.translate(draft, types)
    role_kinds.translate(draft, types)
    file_settings.translate(draft, flags, types)
    yarn_settings.translate(draft, types, cwd)
    implicit_roles.translate(draft, flags, types)
    site_limits.check(draft, types)
    missing_file_checks.check(draft, flags, types, cwd)
    return draft, complete
