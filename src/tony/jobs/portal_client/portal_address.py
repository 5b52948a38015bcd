"""Addresses of portals as users write them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tony.address import format_host
from tony.errors import UserError


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


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
