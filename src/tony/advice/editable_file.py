"""Whether a file is the one that a job came from, and which of its values are really set there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tony.advice.patch import parts_of
from tony.advice.recommendation import SettingChange
from tony.config.call_settings import from_spec
from tony.config.load import Resolved, is_original, load
from tony.config.secret_names import redact
from tony.dataclass import replace
from tony.errors import UserError
from tony.model.job_record import JobRecord
from tony.model.job_spec import JobSpec
from tony.model.masking import is_secret


def is_toml(path: Path) -> bool:
    """Whether a job file is one that is written into, by its name."""
    return not is_original(path) and path.suffix.lower() not in (".yaml", ".yml")


def why_not_written(path: Path) -> str:
    """Why a job file is not written into; empty if it is."""
    if is_original(path):
        return (
            f"{path} is a file of the original: its settings have other names there. Write the changes yourself, or "
            f"make it a job file first: tony convert {path} > job.toml"
        )
    if not is_toml(path):
        return (
            f"{path} is YAML, of which comments and order would be lost in writing. Write the changes yourself, or "
            "name a TOML file."
        )
    return ""


def resolved_again(path: Path, record: JobRecord) -> Resolved:
    """A job file as it would be submitted now, with the parameters that the job was given besides.

    Raises:
        ConfigError: there are mistakes in it.
        UserError: it is another job's.
    """
    resolved = load(path, params=given(record))
    differences = _differences(resolved.spec, record.spec)
    if differences:
        raise UserError(
            f"{path} is not the file of job {record.job_id}: {'; '.join(differences)}. Nothing was written."
        )
    return resolved


def given(record: JobRecord) -> list[str]:
    """The parameters that a job was given on its command line, but for secrets, which nobody has kept."""
    return [
        f"{name}={value}"
        for name, value in record.spec.params.items()
        if record.sources.get(f"params.{name}", "").startswith("--") and not is_secret(name, record.spec.secret)
    ]


def _differences(file: JobSpec, job: JobSpec) -> list[str]:
    file = redact(file)  # as the job's record has it
    found = [
        f"its {what} is {mine!r}, and the job's {theirs!r}"
        for what, mine, theirs in (
            ("name", file.name, job.name),
            ("framework", file.framework, job.framework),
            ("roles", ", ".join(file.effective_roles), ", ".join(job.effective_roles)),
        )
        if mine != theirs
    ]
    if not found:
        found = [
            f"the command of {name} is another one"
            for name in job.effective_roles
            if file.command_of(name) != job.command_of(name)
        ]
    return found


def why_elsewhere(change: SettingChange, file: JobSpec, record: JobRecord) -> str:
    """Why a change would be wrong in the file: its value is not what the job had, or was not set there. Else empty."""
    source = record.sources.get(change.key, "")
    if source.startswith(("--", "env ", "argument")):
        return f"the job had it from {source}: change it there"
    mine, theirs = _value(file, change), _value(record.spec, change)
    if mine != theirs:
        return "the file says something else by now than it did for this job"
    return ""


def _value(spec: JobSpec, change: SettingChange) -> Any:
    values: Any = from_spec(_spelled(spec), with_defaults=True)
    for part in parts_of(change.key):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _spelled(spec: JobSpec) -> JobSpec:
    """With its one role written down, if it names none."""
    return spec if spec.roles else replace(spec, roles=dict(spec.effective_roles))
