"""Access tokens for a portal, and cookies issued for them.

A token is 32 random bytes with a public name: `tony_1f0a2b3c_...`. The portal keeps only its digest, in `tokens.json`
of its own folder (mode 0600), to which only the portal's owner can add tokens with `tony portal token`. A running
portal notices new and revoked tokens at their next use.

A cookie contains its user, its token's name and its expiry, and is signed with the portal's key. It expires with its
token, or when its user logs out: `ended.json` lists cookies that ended early, by their random part.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hmac
import logging
import os
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from tony import clock
from tony.errors import RecordError, StorageError, TonyError, UserError
from tony.history.json_files import read_json, write_json
from tony.linux.files import replace_file
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.web.user_authentication import PERSON, TokenOwner

T = TypeVar("T")
#: Default lifetime of a token in seconds; maximum lifetime of a cookie.
DEFAULT_LIFETIME_SECONDS = 90 * 86400.0
SESSION = 12 * 3600.0
#: Ended cookies remembered per token; beyond that the ones that would expire first are forgotten.
_MAX_ENDED = 100
#: Random bytes of a token, and of the portal's key.
_SECRET_BYTES = 32
_TOKEN = re.compile(r"tony_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_log = logging.getLogger(__name__)
_COOKIE = re.compile(r"([A-Za-z0-9_-]{1,600})\.([0-9a-f]{8})\.(\d{1,12})\.([0-9a-f]{16})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """The stored part of a token.

    Attributes:
        name: its public part.
        digest: SHA-256 of the whole token, as hex.
        made, until: seconds since 1970; until None: it does not expire.
        note: free text about its purpose.
    """

    name: str
    user: str
    digest: str
    made: float
    until: float | None = None
    note: str = ""


class TokenFile:
    """The tokens of a portal: the `TokenStore` of `web/user_authentication.py`.

    Safe for threads, and processes of one user.

    Args:
        folder: the portal's own; created with mode 0700 when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tokens = _CachedFile(folder / "tokens.json", tuple[TokenEntry, ...], "Remove it, and create new tokens.")
        self._ended = _CachedFile(
            folder / "ended.json",
            dict[str, dict[str, float]],
            f"Remove it and {folder}/key; then every user must log in again.",
        )
        self._mutex = threading.Lock()
        self._key = b""

    # --- for the portal -----------------------------------------------------------------------------------------------

    def find(self, text: str) -> TokenOwner | None:
        """Return the owner of a valid token, else None."""
        match = _TOKEN.fullmatch(text)
        entry = self._find_valid(match[1]) if match else None
        # Always hash and compare: the time taken must not tell which tokens exist.
        is_equal = hmac.compare_digest(_compute_digest(text), entry.digest if entry else _compute_digest(""))
        return TokenOwner(entry.user, entry.name, entry.until) if entry and is_equal else None

    def create_cookie(self, known: TokenOwner) -> tuple[str, float]:
        """Return a cookie for the owner of a token, and its expiry in seconds since 1970."""
        until = clock.wall() + SESSION if known.until is None else min(clock.wall() + SESSION, known.until)
        user = base64.urlsafe_b64encode(known.user.encode()).decode().rstrip("=")
        payload = f"{user}.{known.token}.{int(until)}.{secrets.token_hex(8)}"
        return f"{payload}.{self._sign(payload)}", until

    def find_session(self, cookie: str) -> TokenOwner | None:
        """Return the owner of a valid cookie, else None."""
        match = _COOKIE.fullmatch(cookie)
        if not match or not hmac.compare_digest(self._sign(cookie.rpartition(".")[0]), match[5]):
            return None
        try:
            if match[4] in (self._ended.read() or {}).get(match[2], ()):
                return None
        except TonyError:  # logged when it was read: all cookies are refused
            return None
        entry, until = self._find_valid(match[2]), float(match[3])
        try:
            user = base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return TokenOwner(user, match[2], until) if entry and entry.user == user and clock.wall() < until else None

    def end_session(self, cookie: str) -> None:
        """Refuse a cookie from now on, in every portal of this user and after a restart.

        Raises:
            RecordError: the list of ended cookies is invalid.
            StorageError: it cannot be written.
        """
        if self.find_session(cookie) is None:
            return
        _, token, until, name, _ = cookie.split(".")
        with _lock(self._folder):
            now = clock.wall()
            ended = {
                known: {n: t for n, t in of.items() if t > now} for known, of in (self._ended.read() or {}).items()
            }
            latest = sorted({**ended.get(token, {}), name: float(until)}.items(), key=lambda each: each[1])
            ended[token] = dict(latest[-_MAX_ENDED:])
            write_json(self._ended.path, to_plain({known: of for known, of in ended.items() if of}), durable=True)

    def load_key(self) -> bytes:
        """Return the portal's key; create it at its first use.

        Raises:
            StorageError: it can be neither read nor written.
        """
        with self._mutex:
            if not self._key:
                self._key = _load_key(self._folder)
            return self._key

    def _sign(self, payload: str) -> str:
        return hmac.new(self.load_key(), f"cookie|{payload}".encode(), sha256).hexdigest()

    def _find_valid(self, name: str) -> TokenEntry | None:
        try:
            entries = self._tokens.read() or ()
        except TonyError:  # logged when it was read: all tokens are refused
            return None
        entry = next((entry for entry in entries if entry.name == name), None)
        return entry if entry and (entry.until is None or clock.wall() < entry.until) else None

    # --- for its owner ------------------------------------------------------------------------------------------------

    def list_entries(self) -> tuple[TokenEntry, ...]:
        """Return all tokens that were not revoked, including expired ones.

        Raises:
            RecordError: the file is invalid.
            StorageError: it cannot be read.
        """
        return self._tokens.read() or ()

    def make(
        self, user: str, seconds: float | None = DEFAULT_LIFETIME_SECONDS, note: str = ""
    ) -> tuple[str, TokenEntry]:
        """Create a token; return its text, which is not stored, and its stored part.

        Args:
            seconds: its lifetime; None for no expiry.

        Raises:
            UserError: the user's name is invalid.
            StorageError: it cannot be stored.
        """
        if not PERSON.fullmatch(user) or not user.isprintable():
            raise UserError(
                f"{user[:80]!r} is not a valid user name: no blanks, commas, colons and slashes, and no leading @"
            )
        now = clock.wall()
        with self._edit_entries() as entries:
            name = secrets.token_hex(4)
            while any(entry.name == name for entry in entries):
                name = secrets.token_hex(4)
            text = f"tony_{name}_{secrets.token_urlsafe(_SECRET_BYTES)}"
            until = None if seconds is None else now + seconds
            entry = TokenEntry(
                name=name, user=user, digest=_compute_digest(text), made=now, until=until, note=note[:200]
            )
            entries.append(entry)
        return text, entry

    def revoke(self, words: str) -> tuple[TokenEntry, ...]:
        """Revoke a token by its name, or all tokens of a user; return the revoked ones.

        Raises:
            StorageError: the file cannot be written.
        """
        with self._edit_entries() as entries:
            removed = tuple(entry for entry in entries if words in (entry.name, entry.user))
            entries[:] = [entry for entry in entries if entry not in removed]
        return removed

    @contextlib.contextmanager
    def _edit_entries(self) -> Iterator[list[TokenEntry]]:
        with _lock(self._folder):
            entries = list(self._tokens.read() or ())
            yield entries
            write_json(self._tokens.path, [to_plain(entry) for entry in entries], durable=True)


class _CachedFile(Generic[T]):
    """A JSON file, read again when it has changed. Thread-safe.

    Args:
        remedy: what to do if it is invalid: a sentence.
    """

    def __init__(self, path: Path, kind: type[T], remedy: str) -> None:
        self.path = path
        self._kind, self._remedy = kind, remedy
        self._mutex = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._content: T | None = None
        self._problem = ""
        self._logged = ""

    def read(self) -> T | None:
        """Return the content; None if there is no such file. An error is logged when it first occurs.

        Raises:
            RecordError: it is invalid.
            StorageError: it cannot be read.
        """
        with self._mutex:
            try:
                content = self._read_if_changed()
            except TonyError as error:
                if self._logged != str(error):
                    _log.warning("no user is accepted: %s", error)
                    self._logged = str(error)
                raise
            self._logged = ""
            return content

    def _read_if_changed(self) -> T | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error
        stamp = status.st_mtime_ns, status.st_ino, status.st_size
        if self._stamp != stamp:
            self._load()
            self._stamp = stamp
        if self._problem:
            raise RecordError(self._problem)
        return self._content

    def _load(self) -> None:
        self._content, self._problem = None, ""
        try:
            self._content = from_plain(self._kind, read_json(self.path), ignore_unknown=True)
        except (DecodeError, RecordError) as error:
            self._problem = f"{self.path} is invalid: {error}. {self._remedy}"


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock the files in the folder against other processes.

    Raises:
        StorageError: the folder belongs to another user, or the lock cannot be created or acquired.
    """
    _make_private_folder(folder)
    try:
        descriptor = os.open(folder / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"cannot create {folder}/tokens.lock: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise StorageError(f"cannot lock {folder}/tokens.lock: {error.strerror}") from error
        yield
    finally:
        os.close(descriptor)


def _compute_digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _make_private_folder(folder: Path) -> None:
    """Create the folder, closed to other users.

    Raises:
        StorageError: it belongs to another user, or cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise StorageError(
                f"{folder} belongs to user {status.st_uid}; the portal's tokens must be in a folder of its own user"
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StorageError(f"cannot create {folder}: {error.strerror}") from error


def _load_key(folder: Path) -> bytes:
    _make_private_folder(folder)
    path = folder / "key"
    try:
        if key := _read_key(path):  # without the lock, which some network file systems refuse
            return key
        with _lock(folder):
            key = _read_key(path) or secrets.token_bytes(_SECRET_BYTES)
            replace_file(path, key, durable=True)
            return key
    except OSError as error:
        raise StorageError(f"cannot read or write the portal's key {path}: {error.strerror}") from error


def _read_key(path: Path) -> bytes:
    """Return the key; nothing if there is none of full length."""
    key = path.read_bytes() if path.exists() else b""
    return key if len(key) == _SECRET_BYTES else b""
