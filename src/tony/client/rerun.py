"""Builds a job again from its job directory: the settings as they were resolved, and the files as they were staged.

Secrets are not kept after the end of a job; the caller gives them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tony.client.staged_copy import StagedCopy
from tony.config.files.call_settings import from_spec
from tony.config.load import Resolved, load
from tony.config.table.layers import format_key, leaves, put
from tony.config.table.settings_table import Key
from tony.errors import ConfigError, Problem, UserError
from tony.history.job_record import record_of
from tony.history.json_files import read_if_valid
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home
from tony.model.submission_record import PINNED_SOURCE, JobRecord

#: Settings that are validated as something that a masked value is not: left out until they are given again.
_VALIDATED_TABLES = ("notify",)


@dataclass(frozen=True, slots=True)
class Rerun:
    """A job to submit again.

    Attributes:
        resolved: its settings.
        staged_copy: its staged files; None to stage them from their original paths.
        notice: a sentence that says which of both.
    """

    resolved: Resolved
    staged_copy: StagedCopy | None
    notice: str


def build_rerun(
    home: Home,
    job_id: str,
    *,
    sets: Iterable[str] = (),
    params: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    restage: bool = False,
) -> Rerun:
    """Build a job again.

    Site files count as for any other job: finals and limits apply, and so does a site's default of a setting that the
    job leaves at the default of tony.

    Args:
        sets: `key=value` texts that change settings.
        params: `name=value` texts of parameters.
        variables: environment variables, in every table of the job that has them.
        restage: stage the files as they are now, from their original paths.

    Raises:
        UnknownJobError: there is no such job.
        ConfigError: a secret is missing, or a changed setting is wrong.
        UserError: staged files are no longer there.
    """
    record = record_of(home, job_id)
    folder = home.job(job_id)
    whole = read_if_valid(folder.secret_job, JobRecord)  # of a running job
    record = replace(whole, masked=()) if whole else record
    sets, params = list(sets), list(params)
    resolved = _resolve(record, sets, params, variables or {}, is_staged=not restage)
    if restage:
        return Rerun(resolved, None, "files are staged as they are now, from their original paths")
    if _list_staging_settings(resolved.spec) != _list_staging_settings(record.spec):
        notice = "files are staged as they are now, because a changed setting names or places them"
        return Rerun(_resolve(record, sets, params, variables or {}, is_staged=False), None, notice)
    staged_copy = StagedCopy(record.staged, folder)
    missing = staged_copy.find_missing(home)
    if missing:
        raise UserError(
            f"what job {job_id} has staged is no longer kept: {', '.join(missing)}. To stage it as it is now, from the "
            f"original paths: tony rerun {job_id} --restage"
        )
    return Rerun(resolved, staged_copy, f"files are those that job {job_id} has staged (--restage: as they are now)")


def _resolve(
    record: JobRecord, sets: Iterable[str], params: Iterable[str], variables: Mapping[str, str], *, is_staged: bool
) -> Resolved:
    values = from_spec(record.spec)
    masked = {key: value for key, value in leaves(values) if format_key(key) in record.masked}
    for key in masked:
        if key[0] in _VALIDATED_TABLES:
            values[key[0]].pop(key[1], None)
    for key, _ in [*leaves(values)]:
        if record.sources.get(format_key(key)) == PINNED_SOURCE:  # it is submitted to the cluster that is current now
            values[key[0]][key[1]].pop(key[2])
    given = _place_variables(record.spec, variables)
    given_keys = {key for key, _ in leaves(given)}

    def find_source(key: Key) -> str:
        return "--env" if key in given_keys else record.sources.get(format_key(key), f"job {record.job_id}")

    resolved = load(
        sets=sets,
        params=params,
        assumed=values,
        overrides=given,
        overrides_source=find_source,
        is_staged=is_staged,
    )
    _require_secrets(record, resolved, masked)
    return resolved


def _place_variables(spec: JobSpec, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return variables as settings: in each table that has them already, else in that of the whole job."""
    tables: list[tuple[Key, Mapping[str, str]]] = [(("env",), spec.env), (("container_env",), spec.container_env)]
    tables += [(("roles", name, "env"), role.env) for name, role in spec.roles.items()]
    values: dict[str, Any] = {}
    for name, value in variables.items():
        for table in [key for key, present in tables if name in present] or [("env",)]:
            put(values, (*table, name), value)
    return values


def _require_secrets(record: JobRecord, resolved: Resolved, masked: Mapping[Key, Any]) -> None:
    """Refuse a job whose secrets have not been given again.

    Raises:
        ConfigError: each of them, and how to give it.
    """
    present = dict(leaves(from_spec(resolved.spec)))
    missing = [key for key, value in masked.items() if key not in present or present[key] == value]
    if missing:
        raise ConfigError([Problem(key=format_key(key), message=_explain_missing(record, key)) for key in missing])


def _explain_missing(record: JobRecord, key: Key) -> str:
    how = f"--set {format_key(key)}=VALUE"
    if key[0] == "params":
        how = f"--param {key[-1]}=VALUE"
    elif key[0] == "notify":
        how = f"--set {format_key(key)}=env:NAME or file:PATH"
    elif len(key) > 1 and key[-2] in ("env", "container_env"):
        how = f"--env {key[-1]} (the value in your shell) or --env {key[-1]}=VALUE"
    return f"it has a secret, which is not kept after the end of job {record.job_id}. Give it again: {how}."


def _list_staging_settings(spec: JobSpec) -> tuple[object, ...]:
    """Return the settings that decide what is staged, and for which role."""
    roles = {name: (role.files, role.python) for name, role in spec.effective_roles.items()}
    return (spec.source, spec.files, spec.gitignore, spec.python, spec.scheduler, roles)
