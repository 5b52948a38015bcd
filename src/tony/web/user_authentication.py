"""Authentication and CSRF protection for the portal.

Three authentication methods:

    peer      local connections: the kernel reports the peer's UID; the owner and root need no login
    token     a user's API token as `Authorization: Bearer`, or the session cookie obtained with it
    proxy     a trusted proxy, listed by address, names the user in a header or cookie

Credentials that a browser sends automatically count only if no header indicates a cross-site request.
"""

from __future__ import annotations

import grp
import hmac
import ipaddress
import os
import pwd
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol
from urllib.parse import unquote_plus, urlsplit

from starlette.requests import Request

from tony import clock
from tony.linux.socket_owners import is_ours
from tony.linux.thread_pools import LISTS, set_user
from tony.linux.user_accounts import find_user_name
from tony.web.authorization import AccessDenied, AuthMethod, User
from tony.web.uvicorn_server import PEER

#: Wrong tokens without a delay; each further one doubles the delay, up to the maximum.
_FREE_FAILURES = 5
_MAX_DELAY_SECONDS = 300.0
#: Time without a wrong token after which an address starts again from zero.
_RESET_SECONDS = 600.0
_MAX_ADDRESSES = 10_000


class LoginThrottle:
    """Wrong tokens per client address, of one server."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, address: str) -> float:
        """Count a wrong token; return the seconds to wait before the next attempt, 0 for the first few."""
        client = _find_client_network(address)
        count, last = self._failures.pop(client, (0, 0.0))
        now = clock.monotonic()
        count = count + 1 if now - last < _RESET_SECONDS else 1
        self._failures[client] = count, now
        while len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return 0.0 if count <= _FREE_FAILURES else min(_MAX_DELAY_SECONDS, 2.0 ** min(count - _FREE_FAILURES, 30))


def _find_client_network(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, in which one client can use every address."""
    found = _parse_address(address)
    return str(ipaddress.ip_network((found, 64), strict=False)) if found and found.version == 6 else address


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: A user name. It cannot be mistaken for a group (`@`) or for all users (`*`) in a job's viewers or editors.
PERSON = re.compile(r"[^\s,:@*/\\][^\s,:*/\\]{0,255}")
#: Minimum lifetime of a page token; the maximum is twice that.
_PAGE_TOKEN_SECONDS = 12 * 3600.0
#: Headers that proxies add: a request that has any of them was forwarded.
_FORWARDED = frozenset(
    (
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-host",
        "x-original-url",
        "x-original-forwarded-for",
        "cf-connecting-ip",
        "true-client-ip",
        "fastly-client-ip",
        "x-envoy-external-address",
    )
)
_FORWARDED_PREFIX = "x-forwarded"
#: How long a user's groups are cached, and of how many users.
_GROUPS_CACHE_SECONDS = 60.0
_MAX_CACHED_USERS = 1000
#: Key in `scope` under which the result of the authentication is cached for the request.
_CACHE_KEY = "tony.user"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """A reverse proxy that is trusted to name the user.

    Attributes:
        addresses: of its machines.
        header: request header with the user name.
        cookie: cookie with the user name, URL-encoded.
        origins: its addresses in browsers: `https://portal.example.org`.
        runs_as: OS users that the proxy may run as if it is on this machine, where every process can use its address;
            in addition to the owner and root.
        vouches: every request that it forwards may see all that is served, with a user name or without.
    """

    addresses: tuple[Network, ...]
    header: str = ""
    cookie: str = ""
    origins: frozenset[str] = frozenset()
    runs_as: frozenset[str] = frozenset()
    vouches: bool = False

    @property
    def names_users(self) -> bool:
        """True if the proxy identifies users; False if it only forwards requests."""
        return bool(self.header or self.cookie or self.vouches)


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The owner of a token.

    Attributes:
        token: name of the token; not secret.
        until: expiry, seconds since 1970; None: it does not expire.
    """

    user: str
    token: str
    until: float | None = None


class TokenStore(Protocol):
    """The API tokens of users. Methods may block."""

    def find(self, text: str) -> TokenOwner | None:
        """Return the owner of a token; None if it is unknown, revoked or expired."""

    def find_session(self, cookie: str) -> TokenOwner | None:
        """Return the owner of a session cookie; None if it is unknown, or its token revoked or expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """The authentication settings of a server.

    Attributes:
        key: secret key of the page tokens, 32 bytes.
        owner: OS user of this process; only jobs that this user can read are served.
        admins: users and `@groups` who may see and change every job.
        by_peer: authenticate local connections by the UID of the connecting process, and admit the owner.
        names: host names of the server, besides `localhost` and IP addresses. Any other name in `Host` is refused: it
            may be a DNS rebinding attack.
        secure: browsers connect over HTTPS.
    """

    key: bytes = field(repr=False)
    owner: str
    admins: tuple[str, ...] = ()
    by_peer: bool = True
    names: frozenset[str] = frozenset()
    proxies: tuple[TrustedProxy, ...] = ()
    tokens: TokenStore | None = None
    secure: bool = False

    @property
    def cookie(self) -> str:
        """Name of the session cookie. Browsers accept one with prefix `__Host-` over HTTPS and from this host only."""
        return "__Host-tony" if self.secure else "tony"


class Authenticator:
    """Authenticates the requests to a server."""

    def __init__(self, config: AuthConfig) -> None:
        self._config = config
        self._groups = _Groups()
        self._throttle = LoginThrottle()

    async def authenticate(self, request: Request) -> User | AccessDenied:
        """Authenticate a request; return its user, or why it is refused."""
        if _CACHE_KEY not in request.scope:
            request.scope[_CACHE_KEY] = await self._authenticate(request)
        known: User | AccessDenied = request.scope[_CACHE_KEY]
        if not isinstance(known, AccessDenied):
            set_user(known.name)
        return known

    async def _authenticate(self, request: Request) -> User | AccessDenied:
        if _is_embedded(request):
            return AccessDenied(
                status=403, reason="This request comes from a page of another site. Open the address in its own window."
            )
        if "authorization" in request.headers:
            return await self._authenticate_by_token(request)
        proxy = self._find_proxy(request)
        if proxy is not None and proxy.names_users:
            return await self._authenticate_by_proxy(request, proxy)
        if proxy is None and (wrong := self._check_host(request)):
            return wrong
        if self._config.tokens is not None and self._config.cookie in request.cookies:
            known = await LISTS.run(self._config.tokens.find_session, request.cookies[self._config.cookie])
            if known is not None:
                return await self._make_user(known.user, AuthMethod.SESSION, known.token, known.until)
        return (
            self._build_login_denial("You are not logged in.") if proxy else await self._authenticate_by_peer(request)
        )

    # --- authentication methods ---------------------------------------------------------------------------------------

    async def _authenticate_by_token(self, request: Request) -> User | AccessDenied:
        if self._config.tokens is None:
            return AccessDenied(
                status=403, reason="This server does not accept tokens. Remove the Authorization header."
            )
        sent = request.headers.getlist("authorization")
        scheme, _, text = sent[0].partition(" ")
        if len(sent) == 1 and scheme.lower() == "bearer":
            known = await LISTS.run(self._config.tokens.find, text.strip())
            if known is not None:
                return await self._make_user(known.user, AuthMethod.TOKEN, known.token, known.until)
        return self.reject_token(request)

    def reject_token(self, request: Request) -> AccessDenied:
        """Record a wrong token of the client's address, and return the refusal: 429 after too many."""
        wait = self._throttle.add(request.client.host if request.client else "")
        if wait:
            return AccessDenied(
                status=429, wait=wait, reason=f"Too many wrong tokens from your address; try again in {wait:.0f} s."
            )
        return AccessDenied(
            status=401,
            reason="The token is invalid or has expired. Ask the owner of this portal for another: "
            "`tony portal token --user NAME` prints one.",
        )

    async def _authenticate_by_proxy(self, request: Request, proxy: TrustedProxy) -> User | AccessDenied:
        names = request.headers.getlist(proxy.header) if proxy.header else []
        if proxy.cookie and proxy.cookie in request.cookies:
            names.append(unquote_plus(request.cookies[proxy.cookie]))
        if len(names) > 1 or any(name and not PERSON.fullmatch(name) for name in names):
            return AccessDenied(status=403, reason="The proxy sent an invalid or ambiguous user name.")
        name = names[0] if names else ""
        if not name and not proxy.vouches:
            return AccessDenied(
                status=401, reason=f"The proxy did not send a user name. Expected in: {proxy.header or proxy.cookie}."
            )
        return await self._make_user(name, AuthMethod.PROXY, sees_all=proxy.vouches)

    async def _authenticate_by_peer(self, request: Request) -> User | AccessDenied:
        uid = request.scope.get(PEER)
        known = self._config.by_peer and uid is not None
        if known and not is_ours(uid):
            return self._build_login_denial(
                f"This portal belongs to {self._config.owner}; you are connected as user {find_user_name(uid)}."
            )
        if known and _is_forwarded(request):
            return self._build_login_denial(
                "This request was forwarded by a proxy that is not trusted, so its user is unknown. "
                "To trust the proxy, give its address and the header with the user name: "
                "`tony portal --trust-proxy 127.0.0.1 --user-header X-Remote-User`."
            )
        if known:
            return await self._make_user(self._config.owner, AuthMethod.PEER, admin=True)
        return self._build_login_denial("You are not logged in.")

    def _build_login_denial(self, why: str) -> AccessDenied:
        if self._config.tokens is None:
            return AccessDenied(status=403, reason=why)
        return AccessDenied(
            status=401,
            reason=f"{why} Log in with a token: the owner of this portal can create one for you with "
            "`tony portal token --user NAME`.",
        )

    # --- proxies and host names ---------------------------------------------------------------------------------------

    def _find_proxy(self, request: Request) -> TrustedProxy | None:
        """Return the trusted proxy that forwarded a request; None for a direct connection."""
        host = _parse_address(request.client.host) if request.client else None
        if host is None:
            return None
        for proxy in self._config.proxies:
            if any(host in network for network in proxy.addresses if network.version == host.version):
                uid = request.scope.get(PEER)
                is_local = host.is_loopback or uid is not None
                return proxy if not is_local or self._can_be(proxy, uid) else None
        return None

    def _can_be(self, proxy: TrustedProxy, uid: int | None) -> bool:
        """Return True if a local process may be the proxy: on this machine every user can connect from its address."""
        return is_ours(uid) or (uid is not None and find_user_name(uid) in proxy.runs_as)

    def _check_host(self, request: Request) -> AccessDenied | None:
        sent = request.headers.getlist("host")
        name = _parse_host(sent[0]) if len(sent) == 1 else ""
        if name == "localhost" or _parse_address(name) is not None or name in self._config.names:
            return None
        return AccessDenied(
            status=403,
            reason=f"This server does not answer to the host name {name[:80]!r}. "
            "To allow a name: `tony portal --name NAME`.",
        )

    async def _make_user(
        self,
        name: str,
        how: AuthMethod,
        session: str = "",
        until: float | None = None,
        *,
        sees_all: bool = False,
        admin: bool = False,
    ) -> User:
        groups = await self._groups.find_groups(name) if name else frozenset()
        names = {name, *(f"@{group}" for group in groups)} if name else set()
        identity, slot = f"{how.value}|{name}|{session}", int(clock.wall() // _PAGE_TOKEN_SECONDS)
        return User(
            name=name,
            how=how,
            groups=groups,
            sees_all=sees_all,
            admin=admin or not names.isdisjoint(self._config.admins),
            token=self._derive_page_token(identity, slot),
            earlier=self._derive_page_token(identity, slot - 1),
            until=until,
        )

    # --- requests that change something -------------------------------------------------------------------------------

    def check_change(self, request: Request, portal_user: User, token: str) -> AccessDenied | None:
        """Check that the user intended a request that changes something; return why it is refused, or None.

        A request with an API token is always genuine: browsers never send one on their own, unlike cookies.

        Args:
            token: the CSRF token sent with the request.
        """
        if portal_user.how is AuthMethod.TOKEN:
            return None
        if not self._is_same_origin(request):
            what = "The request was refused: it comes from a page of another site."
            return AccessDenied(status=403, reason=what + self._format_origins_hint(request))
        sent = token.encode("utf-8", "replace")
        if not any(hmac.compare_digest(sent, good.encode()) for good in (portal_user.token, portal_user.earlier)):
            return AccessDenied(
                status=403, reason="The page has expired, or was loaded by another user. Reload it and try again."
            )
        return None

    def is_own_page(self, request: Request) -> bool:
        """Return False if a browser reports that a page of another site made the request; True for other clients."""
        return not _is_embedded(request) and self._is_same_origin(request)

    def _is_same_origin(self, request: Request) -> bool:
        sent = request.headers.getlist("origin")
        if not sent:
            return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if len(sent) > 1:
            return False
        proxy = self._find_proxy(request)
        if proxy is not None and sent[0] in proxy.origins:
            return True
        return sent[0].partition("://")[2].lower() == request.headers.get("host", "").lower() != ""

    def _format_origins_hint(self, request: Request) -> str:
        """Return a sentence that names the accepted origins, for a proxy reached by another of its names."""
        proxy = self._find_proxy(request)
        known = " or ".join(sorted(proxy.origins)) if proxy is not None else ""
        return f" Changes are accepted from pages of {known} only." if known else ""

    def _derive_page_token(self, identity: str, slot: int) -> str:
        message = f"page|{slot}|{identity}".encode("utf-8", "replace")
        return hmac.new(self._config.key, message, sha256).hexdigest()[:40]


def _is_forwarded(request: Request) -> bool:
    """Return True if a header indicates that a proxy forwarded the request."""
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in request.headers)


def _is_embedded(request: Request) -> bool:
    """Return True if a page of another site makes the request, other than by a link that the user follows."""
    if request.headers.get("sec-fetch-site", "none") not in ("cross-site", "same-site"):
        return False
    return request.headers.get("sec-fetch-mode") != "navigate" or request.headers.get("sec-fetch-dest") not in (
        "document",
        None,
    )


def _parse_host(sent: str) -> str:
    """Return the name in a `Host` header without port, brackets and trailing dot; empty if there is none."""
    try:
        return (urlsplit(f"//{sent}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes IPv4. Return None for a host name."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if found.version == 6 else found


# --- groups -----------------------------------------------------------------------------------------------------------


class _Groups:
    """A cache of users' OS groups, looked up in a thread: a directory service (LDAP) may be slow."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def find_groups(self, user: str) -> frozenset[str]:
        """Return the names of a user's groups; none for a user unknown to this machine."""
        known = self._known.get(user)
        if known is not None and clock.monotonic() - known[0] < _GROUPS_CACHE_SECONDS:
            return known[1]
        found = await LISTS.run(_load_groups, user)
        self._known[user] = clock.monotonic(), found
        self._known.move_to_end(user)
        while len(self._known) > _MAX_CACHED_USERS:
            self._known.popitem(last=False)
        return found


def _load_groups(user: str) -> frozenset[str]:
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError, ValueError):
        return frozenset()
    return frozenset(name for number in numbers if (name := _find_group_name(number)))


def _find_group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except (KeyError, OSError):
        return ""
