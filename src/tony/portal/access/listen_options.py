"""Address and authentication of a portal: its command-line options, validated."""

from __future__ import annotations

import ipaddress
import pwd
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tony.address import format_host, is_loopback
from tony.errors import UserError
from tony.jobs.state_dir import get_user_name
from tony.portal.access.login_credentials import TokenFile
from tony.web.user_authentication import PERSON, AuthConfig, TrustedProxy

#: Address that only this machine can reach.
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The options of `tony portal`.

    Attributes:
        host: address or name to listen at.
        port: 0 for any free port.
        names: further host names of the server.
        admins: users and `@groups` who may see and change every job.
        trusted: addresses or networks of proxies.
        user_header: header in which these proxies send the authenticated user.
        proxy_users: OS users as which such a proxy on this machine may run.
        origins: addresses of these proxies in browsers: `https://portal.example.org`.
        certificate, private_key: PEM files for https.
        without_tls: allow tokens over plain HTTP (insecure).
    """

    host: str = LOOPBACK
    port: int = 0
    names: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    user_header: str = ""
    proxy_users: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    private_key: Path | None = None
    without_tls: bool = False

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the portal."""
        return is_loopback(self.host)

    def build_address(self, port: int) -> str:
        """Return the portal's address for browsers."""
        if self.origins:
            return f"{self.origins[0].rstrip('/')}/"
        host = format_host(self.host)
        if host in ("0.0.0.0", "[::]"):
            host = socket.getfqdn()
        return f"{'http' if self.certificate is None else 'https'}://{host}:{port}/"

    def check(self) -> None:
        """Refuse insecure or incomplete combinations.

        Raises:
            UserError: says what is missing.
        """
        if (self.certificate is None) != (self.private_key is None):
            raise UserError("--certificate and --private-key must be given together")
        if self.user_header and not self.trusted:
            raise UserError(
                f"--user-header {self.user_header}: any client could send that header. "
                "Name the proxy that may: --trust-proxy ADDRESS."
            )
        for who in self.admins:
            if not PERSON.fullmatch(who.removeprefix("@")):
                raise UserError(f"--admin {who}: not a user (ann) or group (@admins)")
        for text in self.origins:
            _parse_origin(text)
        for name in self.proxy_users:
            _check_user(name)
        if not (self.is_local or self.certificate or self.trusted or self.without_tls):
            raise UserError(
                f"--address {self.host}: other machines could reach the portal, and tokens could be read on the "
                "network. Add one of: --certificate FILE --private-key FILE (https); --trust-proxy ADDRESS, for a "
                "proxy that provides https (with --user-header NAME if it authenticates users); --without-tls, in a "
                "trusted network. Or leave --address out, and connect with ssh -L 8600:localhost:8600 HOST."
            )

    def build_auth_config(self, tokens: TokenFile) -> AuthConfig:
        """Return the configuration for the authenticator.

        Raises:
            UserError: an address or an origin is invalid.
            StorageError: the portal's key can be neither read nor written.
        """
        proxies: tuple[TrustedProxy, ...] = ()
        if self.trusted:
            proxies = (
                TrustedProxy(
                    addresses=tuple(_parse_network(text) for text in self.trusted),
                    header=self.user_header.lower(),
                    origins=frozenset(_parse_origin(text) for text in self.origins),
                    runs_as=frozenset(self.proxy_users),
                ),
            )
        hosts = [urlsplit(origin).hostname or "" for origin in self.origins]
        return AuthConfig(
            key=tokens.load_key(),
            owner=get_user_name(),
            admins=self.admins,
            names=frozenset(name.lower().removesuffix(".") for name in (*self.names, *hosts, *self._find_own_names())),
            proxies=proxies,
            tokens=tokens,
            secure=self.certificate is not None or any(origin.startswith("https:") for origin in self.origins),
        )

    def _find_own_names(self) -> tuple[str, ...]:
        if self.is_local:
            return ()
        own = socket.gethostname()
        return own, socket.getfqdn(own), self.host

    def create_tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without https.

        Raises:
            UserError: the files are not a certificate with its key.
        """
        if self.certificate is None or self.private_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.private_key, password=_explain_missing_password)
        except (OSError, UserError) as error:
            why = str(error)
            if isinstance(error, ssl.SSLError):
                why = f"not a certificate and its key in PEM format ({error.reason or error})"
            elif isinstance(error, OSError):
                why = error.strerror or why
            raise UserError(f"--certificate {self.certificate}, --private-key {self.private_key}: {why}") from error
        return context


def _explain_missing_password() -> str:
    raise UserError("the key has a password; use one without a password, readable only by you")


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UserError(f"--trust-proxy {text}: not an address (10.0.0.7) or network (10.0.0.0/28)") from None


def _check_user(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise UserError(f"--proxy-user {name}: there is no such user on this machine") from None


def _parse_origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise UserError(
            f"--origin {text}: not an origin; use the portal's address in browsers: https://jobs.example.org"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}"
