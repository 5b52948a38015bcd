"""Masks secrets in messages, tables and the job directory.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from tony.model.job_spec import Command, JobSpec, Notify, SettingValue
from tony.model.masking import PASSWORD_IN_URL, SecretMask, find_secrets, is_secret

#: Shown instead of a secret.
MASK = "***"

_HOST = re.compile(r"https?://[A-Za-z0-9.-]{1,255}(:\d{1,5})?(?=/|\?|$)")


def mask_secret(name: str, value: str, named: Collection[str] = ()) -> str:
    """Return the value for display: a secret is masked, and so is a password in an address.

    Args:
        named: names that the job itself declares as secret.
    """
    return MASK if is_secret(name, named) else PASSWORD_IN_URL.sub(rf"\1:{MASK}", value)


def is_reference(value: str) -> bool:
    """Return True if a setting only refers to its secret: `env:NAME`, `file:PATH`."""
    return value.startswith(("env:", "file:"))


def mask_value(value: str) -> str:
    """Return a secret setting for display: a reference unchanged, the host of an address, else only the mask."""
    if is_reference(value):
        return value
    host = _HOST.match(value)
    return f"{host[0]}/{MASK}" if host else MASK


def redact(spec: JobSpec) -> JobSpec:
    """Return the job without secrets in variables, parameters, scheduler settings and commands."""
    mask = build_mask(spec)
    roles = {
        name: replace(
            role,
            env=_mask_values(role.env, spec, mask),
            command=_mask_command(role.command, mask),
            scheduler_settings={name: _mask_settings(each) for name, each in role.scheduler_settings.items()},
        )
        for name, role in spec.roles.items()
    }
    return replace(
        spec,
        command=_mask_command(spec.command, mask),
        env=_mask_values(spec.env, spec, mask),
        container_env=_mask_values(spec.container_env, spec, mask),
        params=_mask_values(spec.params, spec, mask),
        roles=roles,
        scheduler_settings=_mask_settings(spec.scheduler_settings),
        notify=_mask_notify(spec.notify),
    )


def build_mask(spec: JobSpec) -> SecretMask:
    """Build the mask of all secrets that the job itself holds."""
    settings = {name: value for name, value in spec.scheduler_settings.items() if isinstance(value, str)}
    tables = [spec.env, spec.container_env, spec.params, settings, *(role.env for role in spec.roles.values())]
    return SecretMask(set().union(*(find_secrets(table, spec.secret) for table in tables)))


def _mask_notify(notify: Notify) -> Notify:
    if notify.webhook is None and notify.secret is None:
        return notify
    webhook, secret = (value if value is None else mask_value(value) for value in (notify.webhook, notify.secret))
    return replace(notify, webhook=webhook, secret=secret)


def _mask_settings(settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    return {name: mask_secret(name, value) if isinstance(value, str) else value for name, value in settings.items()}


def _mask_values(values: Mapping[str, str], spec: JobSpec, mask: SecretMask) -> dict[str, str]:
    return {name: mask.hide_text(mask_secret(name, value, spec.secret)) for name, value in values.items()}


def _mask_command(command: Command | None, mask: SecretMask) -> Command | None:
    if command is None or isinstance(command, str):
        return command and mask.hide_text(command)
    return tuple(map(mask.hide_text, command))
