"""Secrets that a job file does not hold itself: `env:NAME` and `file:PATH` stand for what is there at submission."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tony.config.file_reader import FileRejectedError, read_text
from tony.config.secret_names import is_reference
from tony.dataclass import replace
from tony.errors import ConfigError, Problem
from tony.model.job_spec import JobSpec

#: Bytes of a secret: more is another file than the one that was meant.
_LONGEST = 4096


def resolve_reference(spec: JobSpec, environ: Mapping[str, str], sources: Mapping[str, str]) -> JobSpec:
    """The job with every reference replaced by what it stands for.

    Args:
        sources: where each value was set, for messages.

    Raises:
        ConfigError: something is not there, or cannot be what is wanted.
    """
    values: dict[str, Any] = {}
    problems = []
    for name in ("webhook", "secret"):
        given = getattr(spec.notify, name)
        if given is None or not is_reference(given):
            continue
        key = f"notify.{name}"
        try:
            values[name] = _followed(given, environ)
            fault = webhook_mistake(values[name]) if name == "webhook" else ""
        except ValueError as error:
            fault = str(error)
        if fault:
            problems.append(Problem(key=key, message=fault, value=f'"{given}"', source=sources.get(key)))
    if problems:
        raise ConfigError(problems)
    return replace(spec, notify=replace(spec.notify, **values)) if values else spec


def _followed(given: str, environ: Mapping[str, str]) -> str:
    kind, _, place = given.partition(":")
    if kind == "env":
        value = environ.get(place, "")
        if not value:
            raise ValueError(f"the variable {place} is not set where the job is submitted, or empty.")
    else:
        path = Path(place)
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe could block the submission for ever
            raise ValueError(f"{place} is not a plain file. Name a plain file, or use env:NAME.")
        try:
            value = read_text(path, place)
        except FileRejectedError as refused:
            raise ValueError(refused.problem.message) from None
    value = value.strip()
    if not value or len(value.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise ValueError(f"what it stands for is empty, or longer than {_LONGEST} bytes.")
    return value


def webhook_mistake(address: str) -> str:
    """What is wrong with an address for notices; empty if nothing is. It may be secret, so it is not quoted."""
    from urllib.parse import urlsplit  # late: few jobs have one

    example = "write an address such as https://hooks.example.com/T0/B1, or env:NAME."
    if not address.isascii() or not address.isprintable() or " " in address:
        return f"it has characters that no address has; {example}"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return f"it is no address; {example}"
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        return f"it is no address of the web; {example}"
    if parts.username is not None or parts.password is not None:
        return "a user and a password in an address are not sent. Leave them out."
    if parts.path.endswith("/***"):
        return "this is what is shown instead of the address, not the address itself."
    return ""
