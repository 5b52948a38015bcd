"""Portals that a user knows: addresses as users write them, the user's own running one, and saved logins."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tony.address import format_host, is_loopback
from tony.errors import RecordError, StorageError, UserError
from tony.history.json_files import read_if_valid, read_json, write_json
from tony.linux import process
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.state_directory import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalLocation:
    """The content of `portal.json`.

    Attributes:
        address: `http://127.0.0.1:8600/`.
        pid, started, host: identify its process, so that a killed portal is not mistaken for a running one.
    """

    address: str
    pid: int
    started: int | None
    host: str


@contextmanager
def publish_address(home: Home, address: str) -> Iterator[None]:
    """Publish the portal's address inside the context. The last of several portals to start wins."""
    pid = os.getpid()
    own = PortalLocation(address=address, pid=pid, started=process.start_time(pid), host=socket.gethostname())
    with contextlib.suppress(StorageError, OSError):  # a read-only state directory: its jobs are shown nevertheless
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(home.portal_here, to_plain(own))
    try:
        yield
    finally:
        if read_if_valid(home.portal_here, PortalLocation) == own:
            with contextlib.suppress(OSError):
                home.portal_here.unlink()


def find_running(home: Home) -> str | None:
    """Return the address of a portal on this machine that shows this state directory, ending in `/`; None if none."""
    found = read_if_valid(home.portal_here, PortalLocation)
    if found is None or found.host != socket.gethostname():
        return None
    if found.started is None or process.start_time(found.pid) != found.started:
        return None
    return found.address if found.address.endswith("/") else f"{found.address}/"


def normalize_address(text: str) -> str:
    """Normalise a portal's address: `https://jobs.example.org`, `http://127.0.0.1:8600/prefix`.

    Raises:
        UserError: it is invalid.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise UserError(f"--portal {text}: not an address; use http://127.0.0.1:8600 or https://jobs.example.org")
    host = format_host(parts.hostname)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}{'' if port in (None, usual) else f':{port}'}{parts.path.rstrip('/')}"


def is_private(address: str) -> bool:
    """Return True if requests to an address cannot be read on the way: https or loopback."""
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptToken:
    """A saved login.

    Attributes:
        portal: address of the portal that issued the token.
        without_tls: the token may be sent unencrypted.
    """

    portal: str
    user: str
    token: str = field(repr=False)
    without_tls: bool = False


def load_tokens(home: Home) -> tuple[KeptToken, ...]:
    """Return the saved logins.

    Raises:
        RecordError: the file is invalid.
    """
    path = home.path / "portals.json"
    try:
        return from_plain(tuple[KeptToken, ...], read_json(path) or [], ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{path} is invalid: {error}. Remove it, and log in again.") from error


def load_stored_token(home: Home, portal: str) -> KeptToken | None:
    """Return the token that `tony login` stored for a portal; None without one. Raises as `load_tokens`."""
    return next((token for token in load_tokens(home) if token.portal == portal), None)


def keep_token(home: Home, token: KeptToken | None, portal: str) -> None:
    """Save a token for a portal, replacing an earlier one; None removes it.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {home.path}: {error.strerror}") from error
    others = [each for each in load_tokens(home) if each.portal != portal]
    write_json(home.path / "portals.json", [to_plain(each) for each in (*others, *([token] if token else []))])
