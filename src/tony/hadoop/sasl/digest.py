"""DIGEST-MD5 (RFC 2831) as Hadoop uses it for tokens.

The user name is the base64 of the token's identifier, the password the base64 of the token's password. The server's
challenge arrives with its first message, so one response and one confirmation complete it. MD5 protects only
long random passwords here; where FIPS forbids it, it is requested with `usedforsecurity=False`.
"""

from __future__ import annotations

import hmac
import os
import re
from binascii import b2a_base64
from dataclasses import dataclass, field

from tony.hadoop.sasl import digest_layers
from tony.hadoop.sasl.digest_layers import (
    QOP,
    Protection,
    SaslExchangeError,
    SecurityLayer,
    make_layer,
    md5,
    select_protection,
)

#: Characters of a challenge. The RFC says 2048; a generous few times that.
_MAX_CHALLENGE_BYTES = 8192
#: Maximum bytes of a sealed message that the client announces. Servers seal longer responses nevertheless.
MAX_BUFFER = 65536
#: Bytes that sealing adds at most: signature, number, version, padding.
_OVERHEAD = 32
#: `name=value` or `name="value"`, with separators before it.
_DIRECTIVE = re.compile(r'[, \t\r\n]*([A-Za-z0-9-]+)[ \t]*=(?:"((?:[^"\\]|\\.)*)"|([^",]*))', re.DOTALL)
#: Always the first: there is one login in a connection.
_COUNT = "00000001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """First message of the server.

    Attributes:
        realm: always `default` with Hadoop.
        nonce: the server's random text.
        protections: what it offers, in its order.
        ciphers: for privacy, in its order.
        max_buffer: bytes of a sealed message that it takes.
    """

    realm: str
    nonce: str
    protections: tuple[Protection, ...]
    ciphers: tuple[str, ...] = ()
    max_buffer: int = MAX_BUFFER


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The user and the values exchanged by both sides: the input of the formulas.

    Attributes:
        user: base64 of the token's identifier.
        password: base64 of the token's password.
        uri: `/default` with Hadoop: protocol and server of the SASL entry.
    """

    user: str
    password: str = field(repr=False)
    realm: str
    nonce: str
    cnonce: str
    uri: str
    protection: Protection

    def compute_a1(self) -> bytes:
        """Return H(A1) of RFC 2831, from which all keys are derived."""
        inner = md5(f"{self.user}:{self.realm}:{self.password}".encode()).digest()
        return md5(inner + f":{self.nonce}:{self.cnonce}".encode()).digest()

    def compute_proof(self, *, of_server: bool) -> str:
        """Return the client's `response`, or the server's `rspauth`."""
        a2 = f"{'' if of_server else 'AUTHENTICATE'}:{self.uri}"
        if self.protection is not Protection.AUTHENTICATION:
            a2 += ":" + "0" * 32
        middle = f"{self.nonce}:{_COUNT}:{self.cnonce}:{QOP[self.protection]}:{md5(a2.encode()).hexdigest()}"
        return md5(f"{self.compute_a1().hex()}:{middle}".encode()).hexdigest()


class DigestClient:
    """Our side of the conversation: `answer` the challenge, `confirm` the server's proof, then `layer`."""

    def __init__(
        self,
        identifier: bytes,
        password: bytes,
        *,
        uri: str = "/default",
        preferred: tuple[Protection, ...] = (),
        cnonce: str | None = None,
    ) -> None:
        self._identifier = identifier
        self._password = password
        self._uri = uri
        self._preferred = preferred
        self._cnonce = cnonce or _encode_base64(os.urandom(30))
        self._secrets: Secrets | None = None
        self._challenge: Challenge | None = None
        self._cipher = ""
        self.complete = False

    def answer(self, challenge: bytes) -> bytes:
        """Return the response that proves possession of the token.

        Raises:
            SaslExchangeError: not a challenge, or no protection or cipher that both sides have.
        """
        challenge_fields = parse_challenge(challenge)
        protection = select_protection(self._preferred, challenge_fields.protections)
        if protection is Protection.PRIVACY:
            self._cipher = _choose_cipher(challenge_fields.ciphers)
        secrets = Secrets(
            user=_encode_base64(self._identifier),
            password=_encode_base64(self._password),
            realm=challenge_fields.realm,
            nonce=challenge_fields.nonce,
            cnonce=self._cnonce,
            uri=self._uri,
            protection=protection,
        )
        self._secrets, self._challenge = secrets, challenge_fields
        return _build_response(secrets, self._cipher)

    def confirm(self, final: bytes) -> None:
        """Look whether the server knows the password too.

        Raises:
            SaslExchangeError: it does not.
        """
        if self._secrets is None:
            raise SaslExchangeError("the daemon reported success before authentication")
        proof = parse_directives(final).get("rspauth", "")
        if not hmac.compare_digest(proof.encode(), self._secrets.compute_proof(of_server=True).encode()):
            raise SaslExchangeError("the daemon could not prove that it knows the token: it may be an impostor")
        self.complete = True

    def create_layer(self) -> SecurityLayer | None:
        """Return the layer that wraps later traffic; None without one."""
        if self._secrets is None or self._challenge is None or not self.complete:
            raise SaslExchangeError("the login is not complete")
        limit = max(64, self._challenge.max_buffer - _OVERHEAD)
        return make_layer(self._secrets.protection, self._secrets.compute_a1(), self._cipher, limit=limit, client=True)


def parse_challenge(data: bytes) -> Challenge:
    """Read the server's first message.

    Raises:
        SaslExchangeError: not one of DIGEST-MD5, or one that asks for what we do not do.
    """
    directives = parse_directives(data)
    if not directives.get("nonce"):
        raise SaslExchangeError("the daemon's challenge has no nonce")
    if directives.get("algorithm", "") != "md5-sess":
        raise SaslExchangeError("the daemon's challenge asks for another algorithm than md5-sess")
    words = {qop: protection for protection, qop in QOP.items()}
    offered = tuple(words[word] for word in _split_words(directives.get("qop", "auth")) if word in words)
    size = directives.get("maxbuf", str(MAX_BUFFER))
    if not (size.isascii() and size.isdigit() and len(size) <= 8):
        raise SaslExchangeError("the daemon's challenge has a maxbuf that is no number")
    return Challenge(
        realm=directives.get("realm", ""),
        nonce=directives["nonce"],
        protections=offered,
        ciphers=_split_words(directives.get("cipher", "")),
        max_buffer=int(size),
    )


def parse_directives(data: bytes) -> dict[str, str]:
    """Read `a=b,c="d,e"`; the first of two equal names counts.

    Raises:
        SaslExchangeError: too long, not text, or not of that form.
    """
    if len(data) > _MAX_CHALLENGE_BYTES:
        raise SaslExchangeError(f"a challenge of {len(data)} bytes; {_MAX_CHALLENGE_BYTES} are more than enough")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SaslExchangeError("a challenge that is no text") from None
    found: dict[str, str] = {}
    position = 0
    while match := _DIRECTIVE.match(text, position):
        name, quoted, plain = match.groups()
        found.setdefault(name.lower(), plain.strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S))
        position = match.end()
    if text[position:].strip(", \t\r\n"):
        raise SaslExchangeError("a challenge that is no list of name=value")
    return found


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (each.strip().lower() for each in text.split(",")) if word)


def _choose_cipher(offered: tuple[str, ...]) -> str:
    usable = digest_layers.find_usable_ciphers()
    for cipher in usable:
        if cipher in offered:
            return cipher
    offered_names = ", ".join(offered[:10]) or "none"
    hint = "" if "3des" in usable or "3des" not in offered else " 3des needs the Python package cryptography."
    raise SaslExchangeError(
        f"no cipher that both sides have: ours are {', '.join(usable)}, the daemon's {offered_names:.200}.{hint}"
    )


def _build_response(secrets: Secrets, cipher: str) -> bytes:
    parts = [
        "charset=utf-8",
        f"username={_quote(secrets.user)}",
        f"realm={_quote(secrets.realm)}",
        f"nonce={_quote(secrets.nonce)}",
        f"nc={_COUNT}",
        f"cnonce={_quote(secrets.cnonce)}",
        f"digest-uri={_quote(secrets.uri)}",
        f"maxbuf={MAX_BUFFER}",
        f"response={secrets.compute_proof(of_server=False)}",
        f"qop={QOP[secrets.protection]}",
    ]
    if cipher:
        parts.append(f"cipher={_quote(cipher)}")
    return ",".join(parts).encode()


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _encode_base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
