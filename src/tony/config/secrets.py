"""Which values are nobody's business: they are left out of messages, tables and the job's record.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tony.dataclass import replace
from tony.model.job import JobSpec, Notify

#: What is shown instead of a secret.
MASK = "***"

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|KEY|CREDENTIAL", re.IGNORECASE | re.ASCII)
_HOST = re.compile(r"https?://[A-Za-z0-9.-]{1,255}(:\d{1,5})?(?=/|\?|$)")
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")


def is_secret(name: str) -> bool:
    """Whether a variable or parameter of this name is taken for a secret: `HF_TOKEN`, `DB_PASSWORD`, `API_KEY`..."""
    return _SECRET_NAME.search(name) is not None


def masked(name: str, value: str) -> str:
    """The value as it may be shown: a secret is masked, and so is a password inside an address."""
    return MASK if is_secret(name) else _PASSWORD_IN_URL.sub(rf"\1:{MASK}", value)


def is_reference(value: str) -> bool:
    """Whether a setting only says where its secret is: `env:NAME`, `file:PATH`."""
    return value.startswith(("env:", "file:"))


def hidden(value: str) -> str:
    """A setting that is a secret, as it may be shown: where it is, of an address its host, else nothing."""
    if is_reference(value):
        return value
    host = _HOST.match(value)
    return f"{host[0]}/{MASK}" if host else MASK


def redact(spec: JobSpec) -> JobSpec:
    """The job as it may be kept: variables, parameters and scheduler settings without their secrets."""
    roles = {name: replace(role, env=_masked(role.env)) for name, role in spec.roles.items()}
    settings = {name: masked(name, v) if isinstance(v, str) else v for name, v in spec.scheduler_settings.items()}
    return replace(
        spec,
        env=_masked(spec.env),
        container_env=_masked(spec.container_env),
        params=_masked(spec.params),
        roles=roles,
        scheduler_settings=settings,
        notify=_without_secrets(spec.notify),
    )


def _without_secrets(notify: Notify) -> Notify:
    if notify.webhook is None and notify.secret is None:
        return notify
    webhook, secret = (value if value is None else hidden(value) for value in (notify.webhook, notify.secret))
    return replace(notify, webhook=webhook, secret=secret)


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    return {name: masked(name, value) for name, value in values.items()}
