"""The layers of DIGEST-MD5: every message signed (integrity), or signed and encrypted (privacy).

sealed = data + first 10 bytes of HMAC-MD5(key, number + data) + 00 01 + number; numbers count from 0 in each
direction. With privacy, data + padding + the 10 bytes are encrypted, and the cipher's state is kept from message to
message. RC4 needs no package; 3DES comes from `cryptography` where that is installed.
"""

from __future__ import annotations

import hmac
import warnings
from collections.abc import Iterable
from enum import Enum
from functools import partial
from hashlib import md5 as hashlib_md5
from importlib.util import find_spec
from typing import Protocol

from tony.errors import InfraError


class Protection(Enum):
    """The words of `hadoop.rpc.protection`."""

    #: Only the login is protected; SASL calls it "auth".
    AUTHENTICATION = "authentication"
    #: Every message is signed; SASL calls it "auth-int".
    INTEGRITY = "integrity"
    #: Every message is signed and encrypted; SASL calls it "auth-conf".
    PRIVACY = "privacy"


#: What SASL calls them.
QOP = {Protection.AUTHENTICATION: "auth", Protection.INTEGRITY: "auth-int", Protection.PRIVACY: "auth-conf"}


class SaslExchangeError(InfraError):
    """The other side's part of a SASL conversation makes no sense, or proves nothing."""


class SecurityLayer(Protocol):
    """Wraps the traffic of one connection after the login. Order matters in each direction.

    Attributes:
        limit: bytes that `wrap` takes at once, so that the other side's buffer holds what comes of them.
    """

    limit: int

    def wrap(self, data: bytes) -> bytes:
        """Return outgoing data, sealed."""

    def unwrap(self, data: bytes) -> bytes:
        """Return incoming data, unsealed.

        Raises:
            SaslExchangeError: damaged, out of order, or not theirs.
        """


def parse_protections(text: str) -> tuple[Protection, ...]:
    """Read `hadoop.rpc.protection`: one word, or several in order of preference.

    Raises:
        ValueError: another word.
    """
    found: list[Protection] = []
    for word in text.split(","):
        name = word.strip().lower()
        if not name:
            continue
        known = next((protection for protection in Protection if name in (protection.value, QOP[protection])), None)
        if known is None:
            raise ValueError(f"{name!r:.100} is no protection; write authentication, integrity or privacy")
        found.append(known)
    return tuple(dict.fromkeys(found))


def select_protection(preferred: tuple[Protection, ...], offered: Iterable[Protection]) -> Protection:
    """Return the first wanted protection that is offered; without a preference, the first that is offered.

    Raises:
        SaslExchangeError: the two lists do not meet.
    """
    offered_set = tuple(offered)
    for protection in preferred or offered_set:
        if protection in offered_set:
            return protection
    preferred_names = ", ".join(protection.value for protection in preferred) or "any"
    offered_names = ", ".join(protection.value for protection in offered_set) or "nothing that we know"
    raise SaslExchangeError(
        f"no protection that both sides take: ours are {preferred_names}, the daemon offers {offered_names}. "
        "Set hadoop.rpc.protection here to what the daemon has."
    )


class Rc4:
    """One direction of a connection; the key stream continues from message to message. Some 7 MB/s."""

    block = 1

    def __init__(self, key: bytes) -> None:
        state = list(range(256))
        j = 0
        size = len(key)
        for i in range(256):
            j = (j + state[i] + key[i % size]) & 255
            state[i], state[j] = state[j], state[i]
        self._state = state
        self._i = 0
        self._j = 0

    def crypt(self, data: bytes) -> bytes:
        """Encrypt or decrypt: both are the same."""
        size = len(data)
        stream = self._stream(size)
        return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")

    def _stream(self, size: int) -> bytearray:
        state, i, j = self._state, self._i, self._j
        stream = bytearray(size)
        for position in range(size):
            i = (i + 1) & 255
            x = state[i]
            j = (j + x) & 255
            y = state[j]
            state[i] = y
            state[j] = x
            stream[position] = state[(x + y) & 255]
        self._i, self._j = i, j
        return stream


#: Bytes of a signature that are sent.
_MAC = 10
#: Signature, version of the message, its number.
_TAIL = _MAC + 2 + 4
_VERSION = b"\x00\x01"
_SIGNING = b"Digest session key to %s-to-%s signing key magic constant"
_SEALING = b"Digest H(A1) to %s-to-%s sealing key magic constant"
#: Bytes of H(A1) that go into the key, by cipher.
_KEY_BYTES = {"rc4": 16, "3des": 16, "rc4-56": 7, "rc4-40": 5}


#: MD5, also where FIPS forbids it for security; `hmac` takes it in this form, too.
md5 = partial(hashlib_md5, usedforsecurity=False)


def _sign(key: hmac.HMAC, number: bytes, data: bytes) -> bytes:
    signature = key.copy()
    signature.update(number + data)
    return signature.digest()[:_MAC]


class _Cipher(Protocol):
    """One direction. `block` is 1 where nothing is padded."""

    block: int

    def crypt(self, data: bytes) -> bytes: ...


class _TripleDes:
    """3DES-CBC, chained across messages."""

    block = 8

    def __init__(self, key: bytes, *, encrypt: bool) -> None:
        with warnings.catch_warnings():  # it says that 3DES is old
            warnings.simplefilter("ignore")
            try:
                # late: only clusters with privacy need it
                from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
            except ImportError:
                from cryptography.hazmat.primitives.ciphers.algorithms import TripleDES  # late: as above
            from cryptography.hazmat.primitives.ciphers import Cipher, modes  # late: as above

            first, second = _spread_key(key[:7]), _spread_key(key[7:14])
            cipher = Cipher(TripleDES(first + second + first), modes.CBC(key[8:16]))
        self._context = cipher.encryptor() if encrypt else cipher.decryptor()

    def crypt(self, data: bytes) -> bytes:
        return self._context.update(data)


class IntegrityLayer:
    """Signs what goes out, and checks what comes in."""

    def __init__(self, out_key: bytes, in_key: bytes, limit: int) -> None:
        self.limit = limit
        self._out, self._in = hmac.new(out_key, digestmod=md5), hmac.new(in_key, digestmod=md5)
        self._sent = self._received = 0

    def wrap(self, data: bytes) -> bytes:
        """Return outgoing data with its signature and number."""
        number = self._build_next_out()
        return data + _sign(self._out, number, data) + _VERSION + number

    def unwrap(self, data: bytes) -> bytes:
        """Return incoming data after checking signature and order."""
        number = self._build_next_in(data)
        plain, mac = data[:-_TAIL], data[-_TAIL : -_TAIL + _MAC]
        self._check(_sign(self._in, number, plain), mac)
        return plain

    def _build_next_out(self) -> bytes:
        number = (self._sent & 0xFFFFFFFF).to_bytes(4, "big")
        self._sent += 1
        return number

    def _build_next_in(self, data: bytes) -> bytes:
        number = (self._received & 0xFFFFFFFF).to_bytes(4, "big")
        self._received += 1
        if len(data) < _TAIL or data[-6:-4] != _VERSION:
            raise SaslExchangeError("a sealed message that is none of DIGEST-MD5")
        if data[-4:] != number:
            raise SaslExchangeError("a sealed message out of order, or sent twice")
        return number

    @staticmethod
    def _check(expected: bytes, mac: bytes) -> None:
        if expected != mac:  # a mismatch ends the connection, so timing reveals nothing
            raise SaslExchangeError("a message has a wrong signature: it is damaged or not from the daemon")


class PrivacyLayer(IntegrityLayer):
    """Signs and encrypts what goes out; decrypts and checks what comes in."""

    def __init__(self, out_key: bytes, in_key: bytes, out: _Cipher, into: _Cipher, limit: int) -> None:
        super().__init__(out_key, in_key, limit)
        self._encrypt, self._decrypt = out, into

    def wrap(self, data: bytes) -> bytes:
        """Return outgoing data, signed and encrypted."""
        number = self._build_next_out()
        block = self._encrypt.block
        missing = 0 if block == 1 else block - (len(data) + _MAC) % block
        body = data + bytes((missing,)) * missing + _sign(self._out, number, data)
        return self._encrypt.crypt(body) + _VERSION + number

    def unwrap(self, data: bytes) -> bytes:
        """Return incoming data, decrypted, after checking signature and order."""
        number = self._build_next_in(data)
        block = self._decrypt.block
        sealed = data[:-6]
        if len(sealed) % block:
            raise SaslExchangeError("a sealed message that is no whole number of blocks")
        body = self._decrypt.crypt(sealed)
        plain, mac = body[:-_MAC], body[-_MAC:]
        if block > 1:
            padding = plain[-1] if plain else 0
            if not 1 <= padding <= min(block, len(plain)):
                raise SaslExchangeError("a sealed message whose padding is wrong: damaged, or not the daemon's")
            plain = plain[:-padding]
        self._check(_sign(self._in, number, plain), mac)
        return plain


def make_layer(protection: Protection, a1: bytes, cipher: str, *, limit: int, client: bool) -> SecurityLayer | None:
    """Return the layer for one side of a connection.

    Args:
        a1: H(A1) of the login.
        cipher: for privacy: `rc4`, `rc4-56`, `rc4-40`, `3des`.
        limit: bytes to seal at once.
        client: True on the client's side.
    """
    if protection is Protection.AUTHENTICATION:
        return None
    ways = ((b"client", b"server"), (b"server", b"client"))
    outward, inward = ways if client else ways[::-1]
    out_key, in_key = md5(a1 + _SIGNING % outward).digest(), md5(a1 + _SIGNING % inward).digest()
    if protection is Protection.INTEGRITY:
        return IntegrityLayer(out_key, in_key, limit)
    base = a1[: _KEY_BYTES[cipher]]
    encrypt = _make_cipher(cipher, md5(base + _SEALING % outward).digest(), encrypt=True)
    decrypt = _make_cipher(cipher, md5(base + _SEALING % inward).digest(), encrypt=False)
    return PrivacyLayer(out_key, in_key, encrypt, decrypt, limit)


def find_usable_ciphers() -> tuple[str, ...]:
    """Return the ciphers that work here, best first."""
    if find_spec("cryptography") is None:
        return ("rc4", "rc4-56", "rc4-40")
    return ("rc4", "3des", "rc4-56", "rc4-40")


def _make_cipher(name: str, key: bytes, *, encrypt: bool) -> _Cipher:
    return _TripleDes(key, encrypt=encrypt) if name == "3des" else Rc4(key)


def _spread_key(seven: bytes) -> bytes:
    """Expand a 7-byte key to the 8 bytes that DES takes: 7 bits in each, and an unused parity bit."""
    bits = int.from_bytes(seven, "big")
    return bytes((bits >> (49 - 7 * each) & 0x7F) << 1 for each in range(8))
