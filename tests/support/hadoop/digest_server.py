"""The server side of DIGEST-MD5."""

from __future__ import annotations

import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable

from tony.hadoop.sasl.digest import Secrets, parse_directives
from tony.hadoop.sasl.digest_layers import QOP, Protection, SaslExchangeError, SecurityLayer, make_layer

#: In Java's order.
CIPHERS = ("3des", "rc4", "des", "rc4-56", "rc4-40")


class UnknownTokenError(Exception):
    """A token that this daemon did not issue."""


class DigestServer:
    """The server side of one login.

    Args:
        password_of: returns the password of a token's identifier; None for an unknown token.
        protections: offered to the client.
        ciphers: offered for privacy.
    """

    def __init__(
        self,
        password_of: Callable[[bytes], bytes | None],
        protections: tuple[Protection, ...] = (Protection.AUTHENTICATION,),
        ciphers: tuple[str, ...] = CIPHERS,
    ) -> None:
        self._password_of = password_of
        self._protections, self._ciphers = protections, ciphers
        self._nonce = b2a_base64(os.urandom(30), newline=False).decode()
        self._secrets: Secrets | None = None
        self._cipher = ""
        self.identifier = b""

    def challenge(self) -> bytes:
        """Return the challenge."""
        qops = ",".join(QOP[each] for each in self._protections)
        text = f'realm="default",nonce="{self._nonce}",qop="{qops}",charset=utf-8'
        if Protection.PRIVACY in self._protections:
            text += f',cipher="{",".join(self._ciphers)}"'
        return f"{text},algorithm=md5-sess".encode()

    def evaluate(self, response: bytes) -> bytes:
        """Verify the client's response; return the server's proof.

        Raises:
            UnknownTokenError: the token is unknown.
            SaslExchangeError: the password is wrong, or the response is malformed.
        """
        said = parse_directives(response)
        self.identifier = a2b_base64(said.get("username", ""))
        password = self._password_of(self.identifier)
        if password is None:
            raise UnknownTokenError
        words = {qop: protection for protection, qop in QOP.items()}
        protection = words.get(said.get("qop", "auth"))
        if protection not in self._protections or said.get("nonce") != self._nonce or said.get("nc") != "00000001":
            raise SaslExchangeError("DIGEST-MD5: a response to another challenge")
        self._cipher = said.get("cipher", "")
        if protection is Protection.PRIVACY and self._cipher not in self._ciphers:
            raise SaslExchangeError("DIGEST-MD5: a cipher that was not offered")
        self._secrets = Secrets(
            user=said["username"],
            password=b2a_base64(password, newline=False).decode(),
            realm=said.get("realm", ""),
            nonce=self._nonce,
            cnonce=said.get("cnonce", ""),
            uri=said.get("digest-uri", ""),
            protection=protection,
        )
        if said.get("response") != self._secrets.compute_proof(of_server=False):
            raise SaslExchangeError("DIGEST-MD5: digest response format violation. Mismatched response.")
        return f"rspauth={self._secrets.compute_proof(of_server=True)}".encode()

    def layer(self) -> SecurityLayer | None:
        """Return the security layer of the further traffic."""
        assert self._secrets is not None
        return make_layer(self._secrets.protection, self._secrets.compute_a1(), self._cipher, limit=65504, client=False)
