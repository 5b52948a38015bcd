"""Loads jobs of LinkedIn TonY from their settings, in a folder of their own, away from the machine's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import parse
from tony.config.legacy.translate import translate
from tony.config.load import Resolved, load
from tony.errors import ConfigError
from tony.model.job_spec import JobSpec

#: Says what to run; Hadoop's class path does not matter.
COMMAND = {"tony.containers.command": "python train.py"}
#: An environment in which no file of this machine is found.
NOWHERE = {"TONY_CONF_DIR": "/nowhere"}


def xml(settings: Mapping[str, str], *, final: Sequence[str] = ()) -> str:
    """A settings file: one line for each property, the first one in line 2."""
    lines = ["<configuration>"]
    for name, value in settings.items():
        more = "<final>true</final>" if name in final else ""
        lines.append(f"<property><name>{escape(name)}</name><value>{escape(value)}</value>{more}</property>")
    return "\n".join([*lines, "</configuration>", ""])


def write(folder: Path, settings: Mapping[str, str], name: str = "tony.xml", **more: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(xml(settings, **more), encoding="utf-8")
    return path


def resolve(
    folder: Path, settings: Mapping[str, str], *flags: str, environ: Mapping[str, str] = NOWHERE, **more: Any
) -> Resolved:
    """Loads the job of a `tony.xml` in this folder, which is the current one, and of a command line's words."""
    write(folder, settings)
    return load(flags=parse(flags), environ=environ, cwd=folder, site_files=[], **more)


def spec(folder: Path, settings: Mapping[str, str], *flags: str, **more: Any) -> JobSpec:
    """As `resolve`, the job alone; it has a command."""
    return resolve(folder, {**COMMAND, **settings}, *flags, **more).spec


def list_errors(folder: Path, settings: Mapping[str, str], *flags: str, **more: Any) -> list[str]:
    """The errors in a job that must have some, as people read them."""
    with pytest.raises(ConfigError) as caught:
        resolve(folder, {**COMMAND, **settings}, *flags, **more)
    return [str(problem) for problem in caught.value.problems]


def notes(folder: Path, settings: Mapping[str, str], *flags: str, **more: Any) -> list[str]:
    return [str(note) for note in resolve(folder, {**COMMAND, **settings}, *flags, **more).notes]


def drafted(folder: Path, settings: Mapping[str, str], *flags: str, environ: Mapping[str, str] = NOWHERE) -> DraftJob:
    """What the translation makes of a job, before anything is checked."""
    write(folder, settings)
    return translate(parse(flags), environ, folder)[0]
