"""Listen addresses and permitted users by the command line of a portal; login with a browser."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import as_peer, fetch, keep
from tony.client.credential_creation import make_credentials
from tony.errors import UserError
from tony.model.state_directory import Home
from tony.portal.access.listen_options import ListenOptions
from tony.portal.access.login_credentials import TokenFile
from tony.portal.access.login_routes import LoginRoutes
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import Authenticator

OUTSIDE = "0.0.0.0"
JOB = "local-20260101-000000-0a1b2c"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": OUTSIDE, "without_tls": True},
        {"host": OUTSIDE, "trusted": ("10.0.0.7",)},
        {"host": OUTSIDE, "trusted": ("10.0.0.0/28",), "user_header": "X-Remote-User"},
        {"host": OUTSIDE, "certificate": Path("c"), "private_key": Path("k")},
    ],
)
def test_safe_listen_options_are_accepted(said: dict[str, Any]) -> None:
    """Loopback, a connection that protects tokens, or an option that allows otherwise."""
    ListenOptions(**said).check()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"host": OUTSIDE}, ["--certificate", "--trust-proxy", "--without-tls", "ssh -L"]),
        ({"host": "gateway.example"}, ["--certificate"]),
        ({"certificate": Path("c")}, ["--private-key"]),
        ({"user_header": "X-User"}, ["any client could send that header", "--trust-proxy"]),
        ({"admins": ("a b",)}, ["--admin a b"]),
        ({"origins": ("jobs.example",)}, ["--origin jobs.example", "https://"]),
        ({"trusted": ("10.0.0.7",), "proxy_users": ("no-such user",)}, ["--proxy-user no-such user"]),
    ],
)
def test_unintended_access_is_refused(said: dict[str, Any], words: list[str]) -> None:
    """The message says what to use instead."""
    with pytest.raises(UserError) as refused:
        ListenOptions(**said).check()
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(
    "said",
    [{"trusted": ("gateway",)}, {"trusted": ("10.0.0.1",), "origins": ("jobs.example",)}, {"trusted": ("1.2.3.4/99",)}],
)
def test_addresses_that_are_none(tmp_path: Path, said: dict[str, Any]) -> None:
    """A name is not taken for a proxy: who answers for it may change."""
    with pytest.raises(UserError, match=r"--trust-proxy|--origin"):
        ListenOptions(**said).build_auth_config(TokenFile(tmp_path))


def test_https(tmp_path: Path) -> None:
    """The context speaks it; a file that is no certificate is named."""
    made = make_credentials(tls=True).executors
    files: dict[str, Any] = {}
    for name, text in (("certificate", made.certificate), ("private_key", made.key)):
        assert text is not None
        files[name] = tmp_path / name
        files[name].write_text(text)
    context = ListenOptions(**files).create_tls_context()
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    files["private_key"].write_text("nothing")
    with pytest.raises(UserError, match="private_key: not a certificate and its key in PEM format"):
        ListenOptions(**files).create_tls_context()
    files["private_key"].unlink()
    with pytest.raises(UserError, match=r"private_key: No such file or directory$"):
        ListenOptions(**files).create_tls_context()


# --- a browser --------------------------------------------------------------------------------------------------------

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
OWN = {**FORM, "Origin": "http://127.0.0.1:8600"}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "portal")


def portal(tmp_path: Path, tokens: TokenFile, **said: Any) -> ASGIApp:
    """One with a job of ann's, asked over the network."""
    home = Home(tmp_path / "home")
    keep(home)
    terms = ListenOptions(**said).build_auth_config(tokens)
    context = ServerContext(HomeSource(home, "owner"), Authenticator(terms), login=True)
    login = LoginRoutes(context, tokens, terms.cookie, secure=terms.secure)
    return as_peer(create(context, login.build_routes()), None)


def test_a_token_is_written_into_the_page(tmp_path: Path, tokens: TokenFile) -> None:
    """A page asks for it, gives a cookie for it, and continues where one wanted to go."""
    app = portal(tmp_path, tokens)
    asked = fetch(app, f"/job/{JOB}?x=1")
    assert (asked.status_code, f'name="next" value="job/{JOB}?x=1"' in asked.text) == (401, True)
    assert JOB not in asked.text.replace(f"job/{JOB}?x=1", "")
    wrong = fetch(app, "/login", method="POST", headers=OWN, content=f"token=no&next=job/{JOB}".encode())
    assert (wrong.status_code, f'name="next" value="job/{JOB}"' in wrong.text) == (401, True)
    token, entry = tokens.make("ann")
    body = f"token={token}&next=job/{JOB}".encode()
    answer = fetch(app, "/login", method="POST", headers=OWN, content=body)
    assert (answer.status_code, answer.headers["location"]) == (303, f"./job/{JOB}")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert token not in cookie
    value = cookie.partition(";")[0]
    page = fetch(app, f"/job/{JOB}", headers={"Cookie": value})
    assert (page.status_code, 'method="post" action="../logout"' in page.text) == (200, True)
    assert "logout" not in fetch(app, f"/job/{JOB}", headers={"Authorization": f"Bearer {token}"}).text
    gone = fetch(app, "/logout", method="POST", headers={**OWN, "Cookie": value})
    assert 'tony="";' in gone.headers["set-cookie"]
    assert fetch(app, "/api/v1/me", headers={"Cookie": value}).status_code == 401
    answer = fetch(app, "/login", method="POST", headers=OWN, content=body)
    value = answer.headers["set-cookie"].partition(";")[0]
    assert fetch(app, f"/job/{JOB}", headers={"Cookie": value}).status_code == 200
    tokens.revoke(entry.name)
    assert fetch(app, f"/job/{JOB}", headers={"Cookie": value}).status_code == 401


def test_a_cookie_over_https(tmp_path: Path, tokens: TokenFile) -> None:
    """Never travels otherwise, and is this host's alone."""
    app = portal(tmp_path, tokens, trusted=("127.0.0.1",), origins=("https://jobs.example",))
    token, _ = tokens.make("ann")
    answer = fetch(app, "/login", method="POST", headers=OWN, content=f"token={token}".encode())
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-tony=")
    assert "Secure" in cookie.split("; ")


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_another_site_cannot_log_a_user_in(tmp_path: Path, tokens: TokenFile, headers: dict[str, str]) -> None:
    """A user logged in under another account would take its jobs for their own."""
    token, _ = tokens.make("eve")
    body = f"token={token}".encode()
    answer = fetch(portal(tmp_path, tokens), "/login", method="POST", headers={**FORM, **headers}, content=body)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("content", [b"", b"token=", b"token=no", b"x" * 100_000, b"&" * 5000, b"\xff\xfe=\0"])
def test_an_invalid_token_is_refused(tmp_path: Path, tokens: TokenFile, content: bytes) -> None:
    answer = fetch(portal(tmp_path, tokens), "/login", method="POST", headers=OWN, content=content)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert 'name="token"' in answer.text


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "../../x//y", "a\r\nX: y"]
)
def test_login_redirects_within_the_portal_only(tmp_path: Path, tokens: TokenFile, after: str) -> None:
    token, _ = tokens.make("ann")
    body = f"token={token}&next={after}".encode()
    answer = fetch(portal(tmp_path, tokens), "/login", method="POST", headers=OWN, content=body)
    where = answer.headers["location"]
    assert answer.status_code == 303
    assert where.startswith("./")
    assert "//" not in where
    assert "\\" not in where


def test_a_cross_site_link_is_followed_by_a_refresh(tmp_path: Path, tokens: TokenFile) -> None:
    """A strict cookie is not sent with it; the portal's own page loads itself again, and then it is."""
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    app = portal(tmp_path, tokens)
    assert fetch(app, "/", headers=cross).headers["refresh"] == "0"
    assert "refresh" not in fetch(app, "/", headers={**cross, "Sec-Fetch-Site": "same-origin"}).headers
