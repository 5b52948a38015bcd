"""Checks that a file is the job file of a job, and which values are set in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tony.advice.patch import parts_of
from tony.advice.recommendation import SettingChange
from tony.config.files.call_settings import from_spec
from tony.config.load import Resolved, is_linkedin_xml, load
from tony.config.secret_masking import redact
from tony.errors import UserError
from tony.model.job_spec import JobSpec
from tony.model.masking import is_secret
from tony.model.submission_record import JobRecord


def is_toml(path: Path) -> bool:
    """Return True if a job file can be edited, by its name."""
    return not is_linkedin_xml(path) and path.suffix.lower() not in (".yaml", ".yml")


def why_not_written(path: Path) -> str:
    """Return why a job file cannot be edited; empty if it can."""
    if is_linkedin_xml(path):
        return (
            f"{path} is XML of LinkedIn TonY, with other names of settings. Make the changes yourself, or convert it "
            f"first: tony convert {path} > job.toml"
        )
    if not is_toml(path):
        return f"{path} is YAML, whose comments and order would be lost. Make the changes yourself, or use a TOML file."
    return ""


def resolve_again(path: Path, record: JobRecord) -> Resolved:
    """Resolve a job file as if submitted now, with the parameters of the job's command line.

    Raises:
        ConfigError: it is not valid.
        UserError: it is the file of another job.
    """
    resolved = load(path, params=command_line_params(record))
    differences = _differences(resolved.spec, record.spec)
    if differences:
        raise UserError(
            f"{path} is not the file of job {record.job_id}: {'; '.join(differences)}. Nothing was written."
        )
    return resolved


def command_line_params(record: JobRecord) -> list[str]:
    """Return the parameters from the job's command line, except secrets, which are not kept."""
    return [
        f"{name}={value}"
        for name, value in record.spec.params.items()
        if record.sources.get(f"params.{name}", "").startswith("--") and not is_secret(name, record.spec.secret)
    ]


def _differences(file: JobSpec, job: JobSpec) -> list[str]:
    file = redact(file)  # as the job's record has it
    found = [
        f"its {what} is {mine!r}, the job's is {theirs!r}"
        for what, mine, theirs in (
            ("name", file.name, job.name),
            ("framework", file.framework, job.framework),
            ("roles", ", ".join(file.effective_roles), ", ".join(job.effective_roles)),
        )
        if mine != theirs
    ]
    if not found:
        found = [
            f"the command of {name} differs"
            for name in job.effective_roles
            if file.command_of(name) != job.command_of(name)
        ]
    return found


def why_elsewhere(change: SettingChange, file: JobSpec, record: JobRecord) -> str:
    """Return why a change does not belong in the file: its value differs from the job's, or was set elsewhere."""
    source = record.sources.get(change.key, "")
    if source.startswith(("--", "env ", "argument")):
        return f"it was set by {source}: change it there"
    mine, theirs = _value(file, change), _value(record.spec, change)
    if mine != theirs:
        return "the file has changed since this job was submitted"
    return ""


def _value(spec: JobSpec, change: SettingChange) -> Any:
    values: Any = from_spec(_expand(spec), with_defaults=True)
    for part in parts_of(change.key):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _expand(spec: JobSpec) -> JobSpec:
    """Return the job with its default role, if it has no roles."""
    return spec if spec.roles else replace(spec, roles=dict(spec.effective_roles))
