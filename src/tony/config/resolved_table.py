"""Every value of a resolved job with its source: `tony validate --resolved`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tony.config.files.call_settings import from_spec
from tony.config.load import Resolved
from tony.config.table.converted_settings import ConvertedValue, read
from tony.config.table.layers import Layer, format_key, merge
from tony.config.table.settings_table import Key, Kind
from tony.config.table.value_format import format_canonical
from tony.errors import RecordError, TonyError
from tony.model.job_spec import JobSpec
from tony.model.masking import build_mask, mask_secret, mask_value, mask_variables, redact
from tony.model.submission_record import JobRecord

#: The source of a value that was not set.
_DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRow:
    """One value of a job.

    Attributes:
        key: dotted.
        value: as in a job file; secrets are masked.
        source: `job.toml:12`, `--set`, `argument`... or `default`; for an inherited value of a role, that of the job.
    """

    key: str
    value: str
    source: str

    @property
    def is_default(self) -> bool:
        """Return True if the value was not set anywhere."""
        return self.source == _DEFAULT


def list_resolved_rows(resolved: Resolved) -> tuple[ResolvedRow, ...]:
    """Return every value of the job, including defaults and the values that roles inherit."""
    values = from_spec(_expand(resolved.spec), with_defaults=True)
    named, mask = resolved.spec.secret, build_mask(resolved.spec)
    value_table = read(merge([Layer(values=values, where=format_key, base=Path("/"))]))
    return tuple(
        ResolvedRow(
            key=format_key(key),
            value=mask.hide_text(_format_row_value(key, found, named)),
            source=_source(key, resolved.sources),
        )
        for key, found in value_table.found.items()
    )


def list_recorded_rows(record: JobRecord) -> tuple[ResolvedRow, ...]:
    """Return every value of a submitted job; blocks while a plug-in's settings are loaded.

    Raises:
        RecordError: a plug-in is not installed here, or the record is damaged.
    """
    try:
        return list_resolved_rows(Resolved(spec=redact(record.spec), sources=record.sources))
    except (TonyError, ValueError, LookupError) as error:
        raise RecordError(f"the configuration of {record.job_id} is invalid: {error}") from error


def _expand(spec: JobSpec) -> JobSpec:
    """Return the job with its default role, and with the inherited values written into each role."""
    roles = {
        name: replace(
            role,
            command=spec.command_of(name),
            python=spec.python_of(name),
            stop_grace=spec.stop_grace_of(name),
            port_range=spec.port_range_of(name),
        )
        for name, role in spec.effective_roles.items()
    }
    return replace(spec, roles=roles)


def _format_row_value(key: Key, found: ConvertedValue, named: Collection[str]) -> str:
    value = found.value
    if isinstance(value, str) and (key[-2:-1] in (("env",), ("container_env",), ("params",)) or key[0] == "scheduler"):
        value = mask_secret(key[-1], value, named)
    elif isinstance(value, str) and found.setting.kind is Kind.SECRET:
        value = mask_value(value)
    elif found.setting.kind is Kind.TABLE:
        value = mask_variables(value, named)
    return format_canonical(found.setting, value)


def _source(key: Key, sources: Mapping[str, str]) -> str:
    candidates = [key]
    if key[0] == "roles":
        candidates += [key[:3], key[2:]]  # `after = [...]` means after.succeeded; then the job's own
    return next((sources[format_key(k)] for k in candidates if format_key(k) in sources), _DEFAULT)
