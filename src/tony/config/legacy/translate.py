"""Translates LinkedIn TonY settings and flags to the values of a job file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tony.config import load as job_config
from tony.config.legacy import (
    draft_checks,
    file_settings,
    implicit_roles,
    job_settings,
    missing_file_checks,
    roles,
    task_types,
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
    draft_checks.check_names(draft)
    types = shape(draft)
    job_settings.translate(draft, flags, types)
    roles.translate(draft, types)
    task_types.translate(draft, types)
    file_settings.translate(draft, flags, types)
    yarn_settings.translate(draft, types, cwd)
    implicit_roles.translate(draft, flags, types)
    draft_checks.check_limits(draft, types)
    missing_file_checks.check(draft, flags, types, cwd)
    return draft, complete


def load(
    flags: Flags,
    *,
    sets: Iterable[str] = (),
    params: Iterable[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    site_files: Iterable[Path] | None = None,
) -> job_config.Resolved:
    """Load a job from LinkedIn TonY flags and the files that they name.

    `sets`, `params`, `overrides` and TONY_SET_... variables override the flags; site files apply as for any job. The
    arguments are those of `tony.config.load.load`.

    Raises:
        ConfigError: all errors of the job.
    """
    return job_config.load(
        flags=flags,
        sets=sets,
        params=params,
        overrides=overrides,
        environ=environ,
        cwd=cwd,
        site_files=site_files,
    )
