"""The gate of a real server: finds out who comes, and refuses what looks like somebody else's doing.

Three ways lead in:

    peer      on this machine the kernel says whose process it is: ourselves and root need no login
    token     one of a user's own, as `Authorization: Bearer`, or a cookie that was given for it
    proxy     a proxy of listed addresses says who it is; it has asked them for their password

What a browser sends by itself is believed only if nothing hints that another page makes it do so.
"""

from __future__ import annotations

import hmac
import ipaddress
import pwd
import re
from hashlib import sha256
from typing import Protocol
from urllib.parse import unquote_plus, urlsplit

from starlette.requests import Request

from tony import clock
from tony.dataclass import dataclass, field
from tony.linux.peer_credentials import is_ours
from tony.linux.threads import set_user
from tony.web.authorization import AccessDenied, PortalUser
from tony.web.lanes import LISTS
from tony.web.login_throttle import LoginThrottle
from tony.web.principal import AuthMethod, Groups, User
from tony.web.uvicorn_server import PEER

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: What people are called: nothing that a job's list takes for a group or for everybody.
PERSON = re.compile(r"[^\s,:@*/\\][^\s,:*/\\]{0,255}")
#: Seconds for which a page's token holds at least; at most twice that.
_PAGE = 12 * 3600.0
#: By these headers a request says that it came through somebody else's hands.
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
#: Under this name `scope` keeps who somebody is: it is found out once for a request.
_KNOWN = "tony.visitor"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """A proxy that is believed when it says who somebody is.

    Attributes:
        addresses: of its machines.
        header, cookie: in which of its headers, or of its cookies, the user stands; in a cookie as in an address.
        origins: how browsers call it: `https://portal.example.org`.
        runs_as: users as which it may run when it is on this machine, where everybody can have its address; besides
            ourselves and root.
        vouches: whoever it lets through may see all that is served, with a name or without.
    """

    addresses: tuple[Network, ...]
    header: str = ""
    cookie: str = ""
    origins: frozenset[str] = frozenset()
    runs_as: frozenset[str] = frozenset()
    vouches: bool = False

    @property
    def names_users(self) -> bool:
        """Whether it says who somebody is; one that does not only brings them here."""
        return bool(self.header or self.cookie or self.vouches)


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whose token it is.

    Attributes:
        token: by which name the token is known; no secret.
        until: seconds since 1970; None: it does not end.
    """

    user: str
    token: str
    until: float | None = None


class TokenStore(Protocol):
    """Tokens of users. Its methods may block."""

    def find(self, text: str) -> TokenOwner | None:
        """Whose a token is; None if it is none of ours, or none any more."""

    def session(self, cookie: str) -> TokenOwner | None:
        """Who got a cookie for a token; None if nobody did, or the token is none any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """On which terms people are let in.

    Attributes:
        key: of pages' tokens; 32 bytes that nobody else knows.
        owner: the user whose process this is: what that one may read is what can be served.
        admins: users and `@groups` who may see and change every job.
        by_peer: connections of this machine are known by their process's user, and the owner is let in.
        names: what the server is called, besides `localhost` and numbers: another name in a request's `Host` is a page
            of others that had its own name lead here.
        secure: browsers come over https.
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
        """Name of the cookie; with this beginning browsers take it over https only, and from this host alone."""
        return "__Host-tony" if self.secure else "tony"


class Authenticator:
    """As `Gate`."""

    def __init__(self, terms: AuthConfig) -> None:
        self._terms = terms
        self._groups = Groups()
        self.failures = LoginThrottle()

    async def visitor(self, request: Request) -> PortalUser | AccessDenied:
        """As `Gate`."""
        if _KNOWN not in request.scope:
            request.scope[_KNOWN] = await self._visitor(request)
        known: PortalUser | AccessDenied = request.scope[_KNOWN]
        if not isinstance(known, AccessDenied):
            set_user(known.name)
        return known

    async def _visitor(self, request: Request) -> PortalUser | AccessDenied:
        if _is_embedded(request):
            return AccessDenied(
                status=403, reason="Another site's page asked for this. Open it in a window of its own."
            )
        if "authorization" in request.headers:
            return await self._by_token(request)
        proxy = self._proxy_of(request)
        if proxy is not None and proxy.names_users:
            return await self._by_proxy(request, proxy)
        if proxy is None and (wrong := self._wrong_name(request)):
            return wrong
        if self._terms.tokens is not None and self._terms.cookie in request.cookies:
            known = await LISTS.run(self._terms.tokens.session, request.cookies[self._terms.cookie])
            if known is not None:
                return await self._guest(known.user, AuthMethod.SESSION, known.token, known.until)
        return self._login("It is not known who you are.") if proxy else await self._by_peer(request)

    # --- the three ways -----------------------------------------------------------------------------------------------

    async def _by_token(self, request: Request) -> PortalUser | AccessDenied:
        if self._terms.tokens is None:
            return AccessDenied(status=403, reason="This server knows no tokens. Leave out the header Authorization.")
        sent = request.headers.getlist("authorization")
        scheme, _, text = sent[0].partition(" ")
        if len(sent) == 1 and scheme.lower() == "bearer":
            known = await LISTS.run(self._terms.tokens.find, text.strip())
            if known is not None:
                return await self._guest(known.user, AuthMethod.TOKEN, known.token, known.until)
        return self.failed(request)

    def failed(self, request: Request) -> AccessDenied:
        """What somebody is told whose token is not right; the more often, the less."""
        wait = self.failures.add(request.client.host if request.client else "")
        if wait:
            return AccessDenied(
                status=429, wait=wait, reason=f"Too many wrong tokens from your address; try again in {wait:.0f} s."
            )
        return AccessDenied(
            status=401,
            reason="This token is not known here, or is none any more. Ask the owner of this portal for another: "
            "`tony portal token --user NAME` prints one.",
        )

    async def _by_proxy(self, request: Request, proxy: TrustedProxy) -> PortalUser | AccessDenied:
        said = request.headers.getlist(proxy.header) if proxy.header else []
        if proxy.cookie and proxy.cookie in request.cookies:
            said.append(unquote_plus(request.cookies[proxy.cookie]))
        if len(said) > 1 or any(name and not PERSON.fullmatch(name) for name in said):
            return AccessDenied(status=403, reason="Your proxy does not say clearly who you are.")
        name = said[0] if said else ""
        if not name and not proxy.vouches:
            return AccessDenied(
                status=401, reason=f"Your proxy does not say who you are: it should, in {proxy.header or proxy.cookie}."
            )
        return await self._guest(name, AuthMethod.PROXY, all_seen=proxy.vouches)

    async def _by_peer(self, request: Request) -> PortalUser | AccessDenied:
        uid = request.scope.get(PEER)
        known = self._terms.by_peer and uid is not None
        if known and not is_ours(uid):
            return self._login(f"You are user {_name_of(uid)} here, and this server is {self._terms.owner}'s.")
        if known and _is_forwarded(request):
            return self._login(
                "This came through a proxy that is not known here, so nobody can say whose it is. "
                "If it may be believed, name its address and the header with its users: "
                "`tony portal --trust-proxy 127.0.0.1 --user-header X-Remote-User`."
            )
        if known:
            return await self._guest(self._terms.owner, AuthMethod.PEER, admin=True)
        return self._login("It is not known who you are.")

    def _login(self, why: str) -> AccessDenied:
        if self._terms.tokens is None:
            return AccessDenied(status=403, reason=why)
        return AccessDenied(
            status=401,
            reason=f"{why} Log in with a token: the owner of this portal gets one for you by "
            "`tony portal token --user NAME`.",
        )

    # --- what is believed ---------------------------------------------------------------------------------------------

    def _proxy_of(self, request: Request) -> TrustedProxy | None:
        """The proxy through which it came; None if it came by itself."""
        host = _address(request.client.host) if request.client else None
        if host is None:
            return None
        for proxy in self._terms.proxies:
            if any(host in network for network in proxy.addresses if network.version == host.version):
                uid = request.scope.get(PEER)
                here = host.is_loopback or uid is not None
                return proxy if not here or self._may_be(proxy, uid) else None
        return None

    def _may_be(self, proxy: TrustedProxy, uid: int | None) -> bool:
        """Whether a process of this machine may be that proxy: its address is everybody's here."""
        return is_ours(uid) or (uid is not None and _name_of(uid) in proxy.runs_as)

    def _wrong_name(self, request: Request) -> AccessDenied | None:
        sent = request.headers.getlist("host")
        name = _host_of(sent[0]) if len(sent) == 1 else ""
        if name == "localhost" or _address(name) is not None or name in self._terms.names:
            return None
        return AccessDenied(
            status=403,
            reason=f"This server is not called {name[:80]!r}. If it is, name it: `tony portal --name NAME`.",
        )

    async def _guest(
        self,
        name: str,
        how: AuthMethod,
        session: str = "",
        until: float | None = None,
        *,
        all_seen: bool = False,
        admin: bool = False,
    ) -> User:
        groups = await self._groups.of(name) if name else frozenset()
        names = {name, *(f"@{group}" for group in groups)} if name else set()
        who, slot = f"{how.value}|{name}|{session}", int(clock.wall() // _PAGE)
        return User(
            name=name,
            how=how,
            groups=groups,
            all_seen=all_seen,
            admin=admin or not names.isdisjoint(self._terms.admins),
            token=self._page_token(who, slot),
            earlier=self._page_token(who, slot - 1),
            until=until,
        )

    # --- what changes something ---------------------------------------------------------------------------------------

    def change(self, request: Request, visitor: PortalUser, token: str) -> AccessDenied | None:
        """As `Gate`. Whoever sends a token of their own along means it; all else a browser sends by itself."""
        if isinstance(visitor, User) and visitor.how is AuthMethod.TOKEN:
            return None
        if not self._is_own(request):
            what = "Another site's page wants to change something here. It was not done."
            return AccessDenied(status=403, reason=what + self._names_of(request))
        sent = token.encode("utf-8", "replace")
        if not isinstance(visitor, User) or not any(
            hmac.compare_digest(sent, good.encode()) for good in (visitor.token, visitor.earlier)
        ):
            return AccessDenied(
                status=403, reason="The page is too old, or was somebody else's. Load it again, and repeat."
            )
        return None

    def own_page(self, request: Request) -> bool:
        """Whether a request comes from one of our own pages, as far as its browser says; True for other programs."""
        return not _is_embedded(request) and self._is_own(request)

    def _is_own(self, request: Request) -> bool:
        sent = request.headers.getlist("origin")
        if not sent:
            return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if len(sent) > 1:
            return False
        proxy = self._proxy_of(request)
        if proxy is not None and sent[0] in proxy.origins:
            return True
        return sent[0].partition("://")[2].lower() == request.headers.get("host", "").lower() != ""

    def _names_of(self, request: Request) -> str:
        """For whoever has come by a name of the proxy's that is not known here: by which ones it is."""
        proxy = self._proxy_of(request)
        known = " or ".join(sorted(proxy.origins)) if proxy is not None else ""
        return f" If it was this site's own: changes are taken from pages of {known}." if known else ""

    def _page_token(self, who: str, slot: int) -> str:
        said = f"page|{slot}|{who}".encode("utf-8", "replace")
        return hmac.new(self._terms.key, said, sha256).hexdigest()[:40]


def _is_forwarded(request: Request) -> bool:
    """Return whether any header says that a proxy has passed the request on."""
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in request.headers)


def _is_embedded(request: Request) -> bool:
    """Whether a page of another site has its browser fetch this, and not a person who follows a link."""
    if request.headers.get("sec-fetch-site", "none") not in ("cross-site", "same-site"):
        return False
    return request.headers.get("sec-fetch-mode") != "navigate" or request.headers.get("sec-fetch-dest") not in (
        "document",
        None,
    )


def _host_of(sent: str) -> str:
    """The name in a header `Host`, without port, brackets and the dot of a full name; empty if there is none."""
    try:
        return (urlsplit(f"//{sent}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A number as an address, the same for both ways in which one of IPv4 may be written; None for a name."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if found.version == 6 else found


def _name_of(uid: int | None) -> str:
    """What this machine calls a user; the number for one that it does not know."""
    try:
        return pwd.getpwuid(-1 if uid is None else uid).pw_name
    except (KeyError, OverflowError, OSError):
        return str(uid)
