"""Every value of a resolved job with the place it came from: `tony validate --resolved`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from tony.config.call_settings import from_spec
from tony.config.layers import Layer, dotted, merge
from tony.config.load import Resolved
from tony.config.secret_names import build_mask, mask_value, masked
from tony.config.settings_table import Key, Kind
from tony.config.settings_tree import find
from tony.config.value_format import canonical
from tony.config.value_table import read
from tony.dataclass import dataclass, replace
from tony.model.job_spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRow:
    """One value of a job.

    Attributes:
        key: dotted.
        value: as a job file would have it; secrets are masked.
        source: `job.toml:12`, `--set`, `argument`... or `default`; of a role's inherited value that of the job's.
    """

    key: str
    value: str
    source: str


def resolved_rows(resolved: Resolved) -> tuple[ResolvedRow, ...]:
    """Every value that the job has, defaults and what roles take from the job included."""
    values = from_spec(_spelled_out(resolved.spec), with_defaults=True)
    named, mask = resolved.spec.secret, build_mask(resolved.spec)
    sheet = read(merge([Layer(values=values, where=dotted, base=Path("/"))]))
    return tuple(
        ResolvedRow(
            key=dotted(key),
            value=mask.hide_text(_shown(key, found.value, named)),
            source=_source(key, resolved.sources),
        )
        for key, found in sheet.found.items()
    )


def _spelled_out(spec: JobSpec) -> JobSpec:
    """The job with nothing left to be taken from elsewhere: its one role if it names none, each role's own values."""
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


def _shown(key: Key, value: object, named: Collection[str]) -> str:
    node = find(key)
    assert node is not None
    assert node.setting is not None
    if isinstance(value, str) and (key[-2:-1] in (("env",), ("container_env",), ("params",)) or key[0] == "scheduler"):
        value = masked(key[-1], value, named)
    elif isinstance(value, str) and node.setting.kind is Kind.SECRET:
        value = mask_value(value)
    return canonical(node.setting, value)


def _source(key: Key, sources: Mapping[str, str]) -> str:
    candidates = [key]
    if key[0] == "roles":
        candidates += [key[:3], key[2:]]  # `after = [...]` stands for after.succeeded; and what the job says
    return next((sources[dotted(k)] for k in candidates if dotted(k) in sources), "default")
