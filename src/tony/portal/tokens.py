"""Tokens by which users are known to a portal, and cookies that are given for them.

A token is 32 random bytes behind a public name: `tony_1f0a2b3c_...`. The portal keeps its digest only, in
`tokens.json` of its own folder (0600): whoever may write there is the portal's owner, and makes tokens for others with
`tony portal token`. What runs sees a token that was made or revoked meanwhile at its next use.

A cookie says whose it is, for which token it was given and until when, and is signed with the portal's key. It ends
with its token, or when its user logs out: `ended.json` lists those that would hold otherwise, by
their random part.
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
from hashlib import sha256
from pathlib import Path

from tony import clock
from tony.dataclass import dataclass
from tony.errors import RecordError, StorageError, TonyError, UserError
from tony.history.json_files import read_json, write_json
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.web.auth import PERSON, TokenOwner

#: Seconds for which a token holds unless something else is said; for which a cookie does at most.
USUAL = 90 * 86400.0
SESSION = 12 * 3600.0
#: Cookies of one token that are remembered as ended; of more those are forgotten that would end the soonest.
_MOST_ENDED = 100
#: Bytes of the secret part of a token, and of the portal's key.
_SECRET = 32
_TOKEN = re.compile(r"tony_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_log = logging.getLogger(__name__)
_COOKIE = re.compile(r"([A-Za-z0-9_-]{1,600})\.([0-9a-f]{8})\.(\d{1,12})\.([0-9a-f]{16})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """What is kept of a token.

    Attributes:
        name: its public part.
        digest: SHA-256 of the whole token, as hex.
        made, until: seconds since 1970; until None: it does not end.
        note: what it is for, in its maker's words.
    """

    name: str
    user: str
    digest: str
    made: float
    until: float | None = None
    note: str = ""


class TokenFile:
    """As `web.door.Tokens`. Any thread, and any process of the portal's owner, may use it.

    Args:
        folder: the portal's own; it is made, for its owner alone, when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "tokens.json"
        self._mutex = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._entries: dict[str, TokenEntry] = {}
        self._key = b""
        self._ended_path = folder / "ended.json"
        self._ended_stamp: tuple[int, int, int] | None = None
        self._ended: dict[str, dict[str, float]] = {}

    # --- for the portal -----------------------------------------------------------------------------------------------

    def find(self, text: str) -> TokenOwner | None:
        """As `web.door.Tokens`."""
        match = _TOKEN.fullmatch(text)
        entry = self._alive(match[1]) if match else None
        # Something is always hashed and compared: how long that takes says nothing about which tokens there are.
        right = hmac.compare_digest(_digest(text), entry.digest if entry else _digest(""))
        return TokenOwner(entry.user, entry.name, entry.until) if entry and right else None

    def cookie(self, known: TokenOwner) -> tuple[str, float]:
        """A cookie for whoever brought a token, and the seconds since 1970 until which it holds."""
        until = clock.wall() + SESSION if known.until is None else min(clock.wall() + SESSION, known.until)
        user = base64.urlsafe_b64encode(known.user.encode()).decode().rstrip("=")
        said = f"{user}.{known.token}.{int(until)}.{secrets.token_hex(8)}"
        return f"{said}.{self._sign(said)}", until

    def session(self, cookie: str) -> TokenOwner | None:
        """As `web.door.Tokens`."""
        match = _COOKIE.fullmatch(cookie)
        if not match or not hmac.compare_digest(self._sign(cookie.rpartition(".")[0]), match[5]):
            return None
        try:
            if match[4] in self._read_ended().get(match[2], ()):
                return None
        except TonyError as error:
            _log.warning("no one is let in by a cookie: %s", error)
            return None
        entry, until = self._alive(match[2]), float(match[3])
        try:
            user = base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return TokenOwner(user, match[2], until) if entry and entry.user == user and clock.wall() < until else None

    def end_session(self, cookie: str) -> None:
        """Refuse a cookie from now on, in every portal of this user and after a restart.

        Raises:
            RecordError: the list of ended cookies is not what it should be.
            StorageError: it cannot be written.
        """
        if self.session(cookie) is None:
            return
        _, token, until, name, _ = cookie.split(".")
        with _locked(self._folder):
            now = clock.wall()
            ended = {known: {n: t for n, t in of.items() if t > now} for known, of in self._read_ended().items()}
            latest = sorted({**ended.get(token, {}), name: float(until)}.items(), key=lambda each: each[1])
            ended[token] = dict(latest[-_MOST_ENDED:])
            write_json(self._ended_path, to_plain({known: of for known, of in ended.items() if of}), durable=True)

    def _read_ended(self) -> dict[str, dict[str, float]]:
        """Return the ended cookies of each token, with the times at which they would have ended.

        Raises:
            RecordError: the file is not what it should be.
            StorageError: it cannot be read.
        """
        with self._mutex:
            try:
                status = self._ended_path.stat()
            except FileNotFoundError:
                self._ended_stamp, self._ended = None, {}
                return self._ended
            except OSError as error:
                raise StorageError(f"cannot read {self._ended_path}: {error.strerror}") from error
            stamp = status.st_mtime_ns, status.st_ino, status.st_size
            if stamp != self._ended_stamp:
                try:
                    self._ended = from_plain(dict[str, dict[str, float]], read_json(self._ended_path) or {})
                except DecodeError as error:
                    raise RecordError(
                        f"{self._ended_path} is not what it should be: {error}. Remove it and {self._folder}/key: then "
                        "every user logs in again."
                    ) from error
                self._ended_stamp = stamp
            return self._ended

    def key(self) -> bytes:
        """The portal's key, made at its first use.

        Raises:
            StorageError: it can be neither read nor kept.
        """
        with self._mutex:
            if not self._key:
                self._key = _kept_key(self._folder)
            return self._key

    def _sign(self, said: str) -> str:
        return hmac.new(self.key(), f"cookie|{said}".encode(), sha256).hexdigest()

    def _alive(self, name: str) -> TokenEntry | None:
        with self._mutex:
            self._refresh()
            entry = self._entries.get(name)
        return entry if entry and (entry.until is None or clock.wall() < entry.until) else None

    def _refresh(self) -> None:
        """Reads the file again if it is another one. One that cannot be read lets nobody in."""
        try:
            status = self._path.stat()
        except OSError:
            self._stamp, self._entries = None, {}
            return
        stamp = status.st_mtime_ns, status.st_ino, status.st_size
        if stamp != self._stamp:
            self._stamp, self._entries = stamp, {}
            try:
                self._entries = {entry.name: entry for entry in self._read()}
            except TonyError as error:
                _log.warning("nobody is let in by a token: %s", error)

    # --- for its owner ------------------------------------------------------------------------------------------------

    def entries(self) -> tuple[TokenEntry, ...]:
        """All that were made and not revoked, those that are over as well.

        Raises:
            RecordError: the file is not what it should be.
            StorageError: it cannot be read.
        """
        return self._read()

    def make(self, user: str, seconds: float | None = USUAL, note: str = "") -> tuple[str, TokenEntry]:
        """A new token: its text, which is kept nowhere, and what is kept of it.

        Args:
            seconds: for which it holds; None: without end.

        Raises:
            UserError: nobody can be called so.
            StorageError: it cannot be kept.
        """
        if not PERSON.fullmatch(user) or not user.isprintable():
            raise UserError(
                f"{user[:80]!r} is no user's name: it has no blanks, commas, colons and slashes, and no @ first."
            )
        now = clock.wall()
        with self._changing() as entries:
            name = secrets.token_hex(4)
            while any(entry.name == name for entry in entries):
                name = secrets.token_hex(4)
            text = f"tony_{name}_{secrets.token_urlsafe(_SECRET)}"
            until = None if seconds is None else now + seconds
            entry = TokenEntry(name=name, user=user, digest=_digest(text), made=now, until=until, note=note[:200])
            entries.append(entry)
        return text, entry

    def revoke(self, words: str) -> tuple[TokenEntry, ...]:
        """Takes back a token by its name, or all of a user; answers which.

        Raises:
            StorageError: the file cannot be written.
        """
        with self._changing() as entries:
            gone = tuple(entry for entry in entries if words in (entry.name, entry.user))
            entries[:] = [entry for entry in entries if entry not in gone]
        return gone

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[TokenEntry]]:
        with _locked(self._folder):
            entries = list(self._read())
            yield entries
            write_json(self._path, [to_plain(entry) for entry in entries], durable=True)

    def _read(self) -> tuple[TokenEntry, ...]:
        try:
            return from_plain(tuple[TokenEntry, ...], read_json(self._path) or [], ignore_unknown=True)
        except DecodeError as error:
            raise RecordError(
                f"{self._path} is not what it should be: {error}. Remove it, and make new tokens."
            ) from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing what is kept in the folder.

    Raises:
        StorageError: the folder is not ours, or its lock cannot be made.
    """
    _private(folder)
    try:
        descriptor = os.open(folder / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"cannot make {folder}/tokens.lock: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _private(folder: Path) -> None:
    """Makes the folder, and keeps others out of it.

    Raises:
        StorageError: it belongs to somebody else, or cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise StorageError(
                f"{folder} belongs to user {status.st_uid}: who may log in is kept by the portal's own user."
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StorageError(f"cannot make {folder}: {error.strerror}") from error


def _kept_key(folder: Path) -> bytes:
    path = folder / "key"
    _private(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            if len(found := path.read_bytes()) == _SECRET:
                return found
            path.unlink()
        draft = folder / f".key.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(_SECRET))
            os.fsync(descriptor)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # of two at once the first one counts
        finally:
            os.close(descriptor)
            draft.unlink()
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot keep the portal's key in {path}: {error.strerror}") from error
