"""The tokens with which the user has logged in to portals.

They are in `portals.json` of the state directory (mode 0600).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tony.errors import RecordError, StorageError
from tony.history.json_files import read_json, write_json
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.layout import Home


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
