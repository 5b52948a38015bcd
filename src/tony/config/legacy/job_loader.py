"""The door for command lines of the original: flags in, a job without mistakes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tony.config import load as ours
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
) -> ours.Resolved:
    """Reads a job from the original's flags and the files that they name.

    What is said in our own way counts more: `sets`, `params`, `overrides`, and variables TONY_SET_... Our site files
    hold for this job as for any other. The other arguments are those of `tony.config.load.load`.

    Raises:
        ConfigError: carries every mistake.
    """
    return ours.load(
        flags=flags,
        sets=sets,
        params=params,
        overrides=overrides,
        environ=environ,
        cwd=cwd,
        site_files=site_files,
    )
