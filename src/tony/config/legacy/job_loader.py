"""Loads a job from LinkedIn TonY flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tony.config import load as job_config
from tony.config.legacy.flags import Flags


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
