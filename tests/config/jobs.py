"""Loads jobs from texts, in a folder of their own, away from the machine's site files and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tony.config.load import Resolved, load
from tony.errors import ConfigError, Problem
from tony.model.job_spec import JobSpec


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def resolve(
    folder: Path,
    text: str | None = None,
    *,
    name: str = "job.toml",
    sets: Iterable[str] = (),
    params: Iterable[str] = (),
    overrides: Mapping[str, Any] | JobSpec | None = None,
    environ: Mapping[str, str] | None = None,
    sites: Iterable[Path] = (),
) -> Resolved:
    """Loads a job whose file stands in `folder`, which is the current folder too."""
    if text is not None:
        write(folder, text, name)
    return load(
        None if text is None else name,
        sets=sets,
        params=params,
        overrides=overrides,
        environ=environ or {},
        cwd=folder,
        site_files=sites,
    )


def problems(folder: Path, text: str | None = None, **more: Any) -> tuple[Problem, ...]:
    """The errors in a job that must have some."""
    with pytest.raises(ConfigError) as caught:
        resolve(folder, text, **more)
    return caught.value.problems


def list_errors(folder: Path, text: str | None = None, **more: Any) -> list[str]:
    return [str(problem) for problem in problems(folder, text, **more)]
