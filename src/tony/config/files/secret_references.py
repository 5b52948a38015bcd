"""Resolves references to secrets at submission: `env:NAME` and `file:PATH`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tony.config.files.file_reader import FileRejectedError, read_text
from tony.errors import ConfigError, Problem
from tony.model.job_spec import JobSpec
from tony.model.masking import is_reference

#: Longest secret in bytes; a longer file is not a secret.
_MAX_BYTES = 4096


def resolve_reference(spec: JobSpec, environ: Mapping[str, str], sources: Mapping[str, str]) -> JobSpec:
    """Return the job with every reference replaced by its secret.

    Args:
        sources: where each value was set, for messages.

    Raises:
        ConfigError: a secret is missing or not valid.
    """
    values: dict[str, Any] = {}
    problems = []
    for name in ("webhook", "secret"):
        given = getattr(spec.notify, name)
        if given is None or not is_reference(given):
            continue
        key = f"notify.{name}"
        try:
            values[name] = _read_secret(given, environ)
            fault = webhook_error(values[name]) if name == "webhook" else ""
        except ValueError as error:
            fault = str(error)
        if fault:
            problems.append(Problem(key=key, message=fault, value=f'"{given}"', source=sources.get(key)))
    if problems:
        raise ConfigError(problems)
    return replace(spec, notify=replace(spec.notify, **values)) if values else spec


def _read_secret(given: str, environ: Mapping[str, str]) -> str:
    kind, _, place = given.partition(":")
    if kind == "env":
        value = environ.get(place, "")
        if not value:
            raise ValueError(f"the environment variable {place} is not set or empty where the job is submitted.")
    else:
        path = Path(place)
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe could block the submission forever
            raise ValueError(f"{place} is not a regular file. Name a regular file, or use env:NAME.")
        try:
            value = read_text(path, place)
        except FileRejectedError as refused:
            raise ValueError(refused.problem.message) from None
    value = value.strip()
    if not value or len(value.encode("utf-8", "surrogateescape")) > _MAX_BYTES:
        raise ValueError(f"the secret is empty, or longer than {_MAX_BYTES} bytes.")
    return value


def webhook_error(address: str) -> str:
    """Return what is wrong with a webhook address; empty if it is valid. It may be secret, so it is not quoted."""
    example = "write an address such as https://hooks.example.com/T0/B1, or env:NAME."
    if not address.isascii() or not address.isprintable() or " " in address:
        return f"it has characters that are not allowed in a URL; {example}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return f"it is not a URL; {example}"
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        return f"it is not an http or https URL; {example}"
    if parts.username is not None or parts.password is not None:
        return "user and password in a URL are not sent. Leave them out."
    if parts.path.endswith("/***"):
        return "this is the masked form of the address, not the address itself."
    return ""
