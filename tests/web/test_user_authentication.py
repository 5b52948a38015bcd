"""Which clients are authenticated, and which requests count as forged."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.web.authorization import AccessDenied, AuthMethod, PortalAction, User
from tony.web.user_authentication import AuthConfig, Authenticator, TokenOwner, TrustedProxy
from tony.web.uvicorn_server import PEER

ME = os.geteuid()
OTHER_USER = 12345 if ME != 12345 else 12346
KEY = b"k" * 32
PORTAL = "127.0.0.1:8600"


class FewTokens:
    """Knows two tokens, and a cookie."""

    def find(self, text: str) -> TokenOwner | None:
        return {"anns": TokenOwner("ann", "0a"), "roots": TokenOwner("boss", "0b")}.get(text)

    def find_session(self, cookie: str) -> TokenOwner | None:
        return TokenOwner("ann", "0a", 1e12) if cookie == "anns-cookie" else None


def terms(**more: Any) -> AuthConfig:
    """Those of a portal of `owner` that knows tokens."""
    usual: dict[str, Any] = {"key": KEY, "owner": "owner", "tokens": FewTokens(), "admins": ("boss",)}
    return AuthConfig(**{**usual, **more})


def request(
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    client: str | None = "127.0.0.1",
    uid: int | None = ME,
    method: str = "GET",
    host: str | None = PORTAL,
) -> Request:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if host is not None:
        pairs.append(("host", host))
    return Request(
        {
            "type": "http",
            "method": method,
            "path": "/",
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
            "client": None if client is None else (client, 50000),
            PEER: uid,
        }
    )


def comes(authenticator: Authenticator, asked: Request) -> User | AccessDenied:
    found = asyncio.run(authenticator.authenticate(asked))
    assert isinstance(found, User | AccessDenied)
    return found


def guest(authenticator: Authenticator, asked: Request) -> User:
    found = comes(authenticator, asked)
    assert isinstance(found, User), found
    return found


def status(authenticator: Authenticator, asked: Request) -> int:
    found = comes(authenticator, asked)
    assert isinstance(found, AccessDenied), found
    return found.status


# --- connections of this machine ------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", None])
@pytest.mark.parametrize("uid", [ME, 0])
def test_the_owner_and_root_need_no_login(client: str | None, uid: int) -> None:
    """The kernel knows the process's user; a user who may read the files may see them here."""
    found = guest(Authenticator(terms()), request(client=client, uid=uid))
    assert (found.name, found.how, found.admin, found.readers) == ("owner", AuthMethod.PEER, True, ())


@pytest.mark.parametrize("uid", [OTHER_USER, None])
@pytest.mark.parametrize(("tokens", "expected"), [(FewTokens(), 401), (None, 403)])
def test_other_users_do(uid: int | None, tokens: FewTokens | None, expected: int) -> None:
    """Another user of this machine, and a connection of whose user nothing is known, have to log in, where one can."""
    assert status(Authenticator(terms(tokens=tokens)), request(uid=uid)) == expected


def test_remote_users_need_a_login() -> None:
    """The kernel does not know the user of a remote client."""
    assert status(Authenticator(terms()), request(client="10.0.0.7", uid=None)) == 401


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded",
        "X-Forwarded-For",
        "x-forwarded-host",
        "X-Forwarded-Proto",
        "X-Forwarded-Server",
        "X-Forwarded-Port",
        "X-Real-IP",
        "X-Original-Host",
        "CF-Connecting-IP",
        "Via",
    ],
)
def test_requests_through_an_unknown_proxy_are_not_the_owners(name: str) -> None:
    """A proxy of the owner's own, or an ssh tunnel, is not the person behind it."""
    found = comes(Authenticator(terms()), request({name: "for=1.2.3.4"}))
    assert isinstance(found, AccessDenied)
    assert found.status == 401
    assert "--trust-proxy" in found.reason


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8600", "localhost.evil.example", "", "a b", "[::1", None]
)
def test_a_name_that_was_led_here(host: str | None) -> None:
    """DNS rebinding: a page of evil.example, whose name now means 127.0.0.1, is refused."""
    assert status(Authenticator(terms()), request(host=host)) == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8600", "10.1.2.3:80", "gate.x", "gate.x."]
)
def test_names_of_this_server(host: str) -> None:
    """Numbers, localhost at any port (a tunnel's end has its own), and the names that were told."""
    assert guest(Authenticator(terms(names=frozenset({"gate.x"}))), request(host=host)).name == "owner"


def test_two_hosts_are_none() -> None:
    """Who says two things at once is believed neither."""
    assert status(Authenticator(terms()), request([("Host", "localhost")])) == 403


@pytest.mark.parametrize(
    ("site", "mode", "target", "allowed"),
    [
        ("cross-site", "no-cors", "image", False),
        ("cross-site", "cors", "empty", False),
        ("same-site", "cors", "empty", False),
        ("cross-site", "navigate", "iframe", False),
        ("cross-site", "navigate", "document", True),
        ("same-origin", "cors", "empty", True),
        ("none", "navigate", "document", True),
    ],
)
def test_other_sites_pages_fetch_nothing(site: str, mode: str, target: str, allowed: bool) -> None:
    """A link may be followed from anywhere; pages of others, also of another port here, embed and fetch nothing."""
    sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
    assert isinstance(comes(Authenticator(terms()), request(sent)), User) is allowed


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_and_a_cookie() -> None:
    """Both are their user's, from anywhere; an administrator is one by name."""
    authenticator = Authenticator(terms())
    far: dict[str, Any] = {"client": "10.0.0.7", "uid": None}
    by_token = guest(authenticator, request({"Authorization": "Bearer anns"}, **far))
    by_cookie = guest(authenticator, request({"Cookie": "tony=anns-cookie"}, **far))
    boss = guest(authenticator, request({"Authorization": "bearer roots"}, **far))
    assert [(each.name, each.how, each.admin) for each in (by_token, by_cookie, boss)] == [
        ("ann", AuthMethod.TOKEN, False),
        ("ann", AuthMethod.SESSION, False),
        ("boss", AuthMethod.TOKEN, True),
    ]
    assert "ann" in by_token.readers


def test_a_token_outranks_the_connection() -> None:
    """The token's user counts, also on the owner's machine; a wrong token is refused even there."""
    authenticator = Authenticator(terms())
    assert guest(authenticator, request({"Authorization": "Bearer anns"})).name == "ann"
    assert status(authenticator, request({"Authorization": "Bearer wrong"})) == 401
    assert status(authenticator, request({"Authorization": "Basic YTpi"})) == 401
    assert status(authenticator, request([("Authorization", "Bearer anns"), ("Authorization", "Bearer roots")])) == 401


def test_a_wrong_cookie_is_none() -> None:
    """It is as if it was not there."""
    assert status(Authenticator(terms()), request({"Cookie": "tony=forged"}, client="10.0.0.7", uid=None)) == 401
    assert guest(Authenticator(terms()), request({"Cookie": "tony=forged"})).name == "owner"


def test_many_wrong_tokens() -> None:
    """An address that continues trying is asked to wait, longer each time; a right token is taken all the same."""
    authenticator = Authenticator(terms())
    tries = [
        comes(authenticator, request({"Authorization": "Bearer no"}, client="10.0.0.7", uid=None)) for _ in range(9)
    ]
    refusals = [each for each in tries if isinstance(each, AccessDenied)]
    assert [each.status for each in refusals] == [401] * 5 + [429] * 4
    assert [each.wait for each in refusals[5:]] == [2.0, 4.0, 8.0, 16.0]
    assert guest(authenticator, request({"Authorization": "Bearer anns"}, client="10.0.0.7", uid=None)).name == "ann"
    assert status(authenticator, request({"Authorization": "Bearer no"}, client="10.0.0.8", uid=None)) == 401


# --- a proxy --------------------------------------------------------------------------------------------------------

SSO = TrustedProxy(
    addresses=(ipaddress.ip_network("10.0.0.0/30"), ipaddress.ip_network("127.0.0.1/32")),
    header="x-remote-user",
    origins=frozenset({"https://portal.example"}),
)
YARN = TrustedProxy(addresses=(ipaddress.ip_network("10.9.0.1/32"),), cookie="proxy-user", vouches=True)


def test_a_trusted_proxy_names_the_user() -> None:
    """From its addresses only; from all others the header is ignored."""
    authenticator = Authenticator(terms(proxies=(SSO,)))
    sent = {"X-Remote-User": "ann", "X-Forwarded-For": "1.2.3.4"}
    found = guest(authenticator, request(sent, client="10.0.0.2", uid=None, host="portal.example"))
    assert (found.name, found.how, found.admin) == ("ann", AuthMethod.PROXY, False)
    assert status(authenticator, request(sent, client="10.0.0.9", uid=None)) == 401
    assert status(authenticator, request({}, client="10.0.0.2", uid=None)) == 401


def test_a_proxy_on_this_machine_is_known_by_its_user() -> None:
    """All local processes share its address: another user's process cannot claim to be ann."""
    authenticator = Authenticator(terms(proxies=(SSO,)))
    assert guest(authenticator, request({"X-Remote-User": "ann"}, uid=ME)).name == "ann"
    assert status(authenticator, request({"X-Remote-User": "ann"}, uid=OTHER_USER)) == 401
    assert status(authenticator, request({"X-Remote-User": "ann"}, client="10.0.0.2", uid=OTHER_USER)) == 401
    by_name = Authenticator(
        terms(proxies=(TrustedProxy(addresses=SSO.addresses, header="x-remote-user", runs_as=frozenset({"12345"})),))
    )
    assert guest(by_name, request({"X-Remote-User": "ann"}, uid=12345)).name == "ann"


@pytest.mark.parametrize("name", ["@admins", "*", "a b", "a,b", "boss\xe9 x", "/x"])
def test_a_proxys_user_is_a_user(name: str) -> None:
    """Not a group, not a wildcard, not two."""
    assert status(Authenticator(terms(proxies=(SSO,))), request({"X-Remote-User": name}, client="10.0.0.2")) == 403


def test_two_users_are_none() -> None:
    """A client that sends the header as well, before its proxy adds its own, is not authenticated."""
    sent = [("X-Remote-User", "boss"), ("X-Remote-User", "ann")]
    assert status(Authenticator(terms(proxies=(SSO,))), request(sent, client="10.0.0.2")) == 403


def test_users_of_a_clusters_proxy_are_trusted() -> None:
    """Without a name they may read, but change nothing; with one they are that user."""
    authenticator = Authenticator(terms(proxies=(YARN,), tokens=None))
    anonymous = guest(authenticator, request(client="10.9.0.1", uid=None))
    named = guest(authenticator, request({"Cookie": "proxy-user=ann"}, client="10.9.0.1", uid=None))
    job = head(user="ann")
    assert [each.may(PortalAction.SEE, job) for each in (anonymous, named)] == [True, True]
    assert [each.may(PortalAction.CHANGE, job) for each in (anonymous, named)] == [False, True]
    assert status(authenticator, request({"Cookie": "proxy-user=ann"}, client="10.9.0.2", uid=None)) == 403


# --- what a job lets them do ----------------------------------------------------------------------------------------


def head(**more: Any) -> JobHead:
    usual: dict[str, Any] = {
        "job": "local-1",
        "name": "digits",
        "state": JobState.RUNNING,
        "user": "owen",
        "scheduler": "local",
        "framework": "none",
        "tasks": 1,
        "submitted": 1.0,
    }
    return JobHead(**{**usual, **more})


def person(name: str, *groups: str, **more: Any) -> User:
    return User(name=name, how=AuthMethod.TOKEN, groups=frozenset(groups), token="t", earlier="", **more)


@pytest.mark.parametrize(
    ("who", "job", "sees", "changes"),
    [
        (person("owen"), head(), True, True),
        (person("ann"), head(), False, False),
        (person("ann"), head(viewers=("ann",)), True, False),
        (person("ann"), head(viewers=("bob",)), False, False),
        (person("ann", "vision"), head(viewers=("@vision",)), True, False),
        (person("vision"), head(viewers=("@vision",)), False, False),
        (person("ann", "vision"), head(editors=("@vision",)), True, True),
        (person("ann"), head(viewers=("*",)), True, False),
        (person("ann"), head(editors=("*",)), True, True),
        (person("", sees_all=True), head(user=""), True, False),
        (person(""), head(user=""), False, False),
        (person("ann", admin=True), head(), True, True),
    ],
)
def test_permissions_of_a_jobs_users(who: User, job: JobHead, sees: bool, changes: bool) -> None:
    """Its owner, its editors and viewers, administrators; no other user."""
    assert (who.may(PortalAction.SEE, job), who.may(PortalAction.CHANGE, job)) == (sees, changes)


# --- changes --------------------------------------------------------------------------------------------------------


def refused(authenticator: Authenticator, asked: Request, token: str) -> bool:
    return authenticator.check_change(asked, guest(authenticator, asked), token) is not None


def test_a_change_needs_the_pages_token_and_its_origin() -> None:
    """What a browser sends automatically, whichever site causes it, is not enough."""
    authenticator = Authenticator(terms())
    token = guest(authenticator, request()).token
    own = {"Origin": f"http://{PORTAL}"}
    assert not refused(authenticator, request(own, method="PUT"), token)
    assert not refused(authenticator, request(method="PUT"), token)
    assert refused(authenticator, request(own, method="PUT"), "")
    assert refused(authenticator, request(own, method="PUT"), token[:-1] + ("0" if token[-1] != "0" else "1"))
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", ""):
        assert refused(authenticator, request({"Origin": origin}, method="PUT"), token)


def test_a_pages_token_is_its_visitors() -> None:
    """The token of another user's page, or of another portal's, is refused."""
    authenticator, other = Authenticator(terms()), Authenticator(terms(key=b"o" * 32))
    anns = guest(authenticator, request({"Cookie": "tony=anns-cookie"}))
    assert refused(authenticator, request(method="PUT"), anns.token)
    assert refused(authenticator, request(method="PUT"), guest(other, request()).token)


def test_a_bearer_token_needs_no_page_token() -> None:
    """Programs that send `Authorization` need no page."""
    assert not refused(Authenticator(terms()), request({"Authorization": "Bearer anns"}, method="PUT"), "")


def test_a_proxys_origin() -> None:
    """Behind a proxy pages have its address, which was told; all others are foreign."""
    authenticator = Authenticator(terms(proxies=(SSO,)))
    sent = {"X-Remote-User": "ann", "Origin": "https://portal.example"}
    asked = request(sent, client="10.0.0.2", method="PUT", host="inside:1")
    assert not refused(authenticator, asked, guest(authenticator, asked).token)
    direct = request({**sent, "Origin": "https://elsewhere.example"}, client="10.0.0.2", method="PUT", host="inside:1")
    assert refused(authenticator, direct, guest(authenticator, direct).token)


# --- whatever is sent -------------------------------------------------------------------------------------------------

HEADERS = st.sampled_from(
    ["Host", "Cookie", "Authorization", "Origin", "X-Remote-User", "Forwarded", "X-Forwarded-For", "Sec-Fetch-Site"]
)
VALUES = st.text(st.characters(max_codepoint=255), max_size=40) | st.sampled_from(
    ["localhost", "tony=", "Bearer ", "Bearer anns-", "owner", "boss", "same-origin", f"http://{PORTAL}"]
)


@settings(deadline=None)
@given(st.lists(st.tuples(HEADERS, VALUES), max_size=6), st.sampled_from(["10.0.0.7", "127.0.0.1", "::1", "x"]))
def test_no_headers_change_the_user_of_an_untrusted_client(headers: list[tuple[str, str]], client: str) -> None:
    """Whatever a process of another user sends, or another machine: it is refused, and nothing breaks."""
    authenticator = Authenticator(terms(proxies=(SSO,)))
    found = comes(authenticator, request(headers, client=client, uid=OTHER_USER if client != "10.0.0.7" else None))
    assert isinstance(found, AccessDenied), found
