"""Tokens of a portal's users, and the cookies that are given for them."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony import clock
from tony.errors import RecordError, StorageError, UserError
from tony.portal.access.login_credentials import SESSION, TokenFile


def test_a_token_is_known_and_not_kept(tmp_path: Path) -> None:
    """It authenticates its user; the file has only its digest, and only its owner can read it."""
    file = TokenFile(tmp_path / "portal")
    text, entry = file.make("ann", note="laptop")
    known = file.find(text)
    assert known is not None
    assert (known.user, known.token, known.until) == ("ann", entry.name, entry.until)
    kept = tmp_path / "portal" / "tokens.json"
    assert text not in kept.read_text()
    secret = text.removeprefix(f"tony_{entry.name}_")  # which may itself contain an underscore
    assert len(secret) > len(entry.name)
    assert secret not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_wrong_tokens(tmp_path: Path) -> None:
    """A token with another secret, another name, or neither belongs to no user."""
    file = TokenFile(tmp_path)
    text, _ = file.make("ann")
    other, _ = file.make("ben")
    head = text[: len("tony_01234567_")]
    for wrong in ("", "tony_", text + "x", text[:-1], head + other[len(head) :], text.upper(), "é" * 57):
        assert file.find(wrong) is None


@given(st.text())
def test_no_text_breaks_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever is sent, it is no token and no cookie."""
    file = TokenFile(tmp_path_factory.getbasetemp() / "hostile")
    assert (file.find(text), file.find_session(text)) == (None, None)


def test_a_running_portal_sees_changed_tokens(tmp_path: Path) -> None:
    """A token that another process makes is accepted at once, and one that it revokes is not any longer."""
    portal, owner = TokenFile(tmp_path), TokenFile(tmp_path)
    assert portal.find("tony_01234567_x") is None
    text, entry = owner.make("ann")
    assert portal.find(text) is not None
    assert [gone.user for gone in owner.revoke(entry.name)] == ["ann"]
    assert portal.find(text) is None
    assert owner.revoke(entry.name) == ()


def test_a_token_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time it is none any longer, and neither is its cookie; one without end continues."""
    file = TokenFile(tmp_path)
    short, _ = file.make("ann", 60.0)
    endless, _ = file.make("ann", None)
    known = file.find(short)
    assert known is not None
    cookie, until = file.create_cookie(known)
    assert until == known.until
    assert file.find_session(cookie) is not None
    later = clock.wall() + 61
    monkeypatch.setattr(clock, "wall", lambda: later)
    assert (file.find(short), file.find_session(cookie)) == (None, None)
    assert file.find(endless) is not None


def test_a_cookie_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds some hours, over a restart of the portal, and only as long as its token is not revoked."""
    file = TokenFile(tmp_path)
    text, entry = file.make("ann", None)
    known = file.find(text)
    assert known is not None
    cookie, _ = file.create_cookie(known)
    again = TokenFile(tmp_path).find_session(cookie)
    assert again is not None
    assert (again.user, again.token) == ("ann", entry.name)
    before = clock.wall()
    monkeypatch.setattr(clock, "wall", lambda: before + SESSION + 5)
    assert file.find_session(cookie) is None
    monkeypatch.setattr(clock, "wall", lambda: before)
    assert file.find_session(cookie) is not None
    file.revoke("ann")
    assert file.find_session(cookie) is None


def test_a_forged_cookie(tmp_path: Path) -> None:
    """One that says another user, another end or another token has a wrong signature; a portal has its own key."""
    file, other = TokenFile(tmp_path / "a"), TokenFile(tmp_path / "b")
    text, entry = file.make("ann", None)
    known = file.find(text)
    assert known is not None
    cookie, _ = file.create_cookie(known)
    user, token, until, name, sign = cookie.split(".")
    for forged in (
        f"YmVu.{token}.{until}.{name}.{sign}",
        f"{user}.{token}.{int(until) + 1}.{name}.{sign}",
        f"{user}.00000000.{until}.{name}.{sign}",
        f"{user}.{token}.{until}.{'0' * 16}.{sign}",
        f"{user}.{token}.{until}.{name}.{'0' * 64}",
    ):
        assert file.find_session(forged) is None
    assert other.find_session(cookie) is None
    assert entry.name == token


@pytest.mark.parametrize("user", ["", "@team", "*", "a b", "a,b", "../x", "a\x1b[31m", "x" * 300])
def test_reserved_names_get_no_token(tmp_path: Path, user: str) -> None:
    """A job's list could take such a name for a group or for all users."""
    with pytest.raises(UserError, match="is not a valid user name"):
        TokenFile(tmp_path).make(user)


def test_a_damaged_token_file_authenticates_no_user(tmp_path: Path) -> None:
    """The portal continues without it; its owner is told what to do."""
    file = TokenFile(tmp_path)
    text, _ = file.make("ann")
    (tmp_path / "tokens.json").write_text(json.dumps([{"name": "x"}]))
    assert file.find(text) is None
    with pytest.raises(RecordError, match="Remove it, and create new tokens"):
        file.list_entries()


def test_errors_of_a_damaged_file_do_not_grow(tmp_path: Path) -> None:
    """An exception that is raised again and again would collect a traceback entry, with its variables, each time."""
    (tmp_path / "tokens.json").write_text("[")
    file = TokenFile(tmp_path)
    depths = set()
    for _ in range(3):
        with pytest.raises(RecordError) as caught:
            file.list_entries()
        depths.add(len([*traceback.walk_tb(caught.value.__traceback__)]))
    assert len(depths) == 1


def test_an_unreadable_file_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once each time that it becomes unreadable, whatever the number of refused requests."""
    file = TokenFile(tmp_path)
    text, _ = file.make("ann")
    content, kept = tmp_path.joinpath("tokens.json"), tmp_path / "kept"
    for times in (1, 2):
        content.rename(kept)
        content.symlink_to(content)
        assert (file.find(text), file.find(text)) == (None, None)
        assert len([each for each in caplog.messages if f"cannot read {content}" in each]) == times
        kept.rename(content)
        assert file.find(text) is not None


def test_a_cookie_ends_when_its_user_logs_out(tmp_path: Path) -> None:
    """Also for a portal that is started later; other cookies of the same token, and new ones, hold."""
    file = TokenFile(tmp_path)
    known = file.find(file.make("ann", seconds=60.0)[0])
    assert known is not None
    first, second = (file.create_cookie(known)[0] for _ in range(2))
    file.end_session(first)
    for portal in (file, TokenFile(tmp_path)):
        assert portal.find_session(first) is None
        assert portal.find_session(second) is not None
        assert portal.find_session(portal.create_cookie(known)[0]) is not None


def test_few_ended_cookies_of_a_token_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging out again and again makes no file without end, and drops no cookies of others."""
    monkeypatch.setattr("tony.portal.access.login_credentials._MAX_ENDED", 3)
    file = TokenFile(tmp_path)
    known = [file.find(file.make(user)[0]) for user in ("ann", "ben")]
    assert known[0]
    assert known[1]
    ann = file.create_cookie(known[0])[0]
    file.end_session(ann)
    cookies = [file.create_cookie(known[1])[0] for _ in range(5)]
    for cookie in (*cookies, "forged", cookies[0]):
        file.end_session(cookie)
    assert file.find_session(ann) is None
    assert file.find_session(cookies[-1]) is None
    assert sorted(map(len, json.loads((tmp_path / "ended.json").read_text()).values())) == [1, 3]
    monkeypatch.setattr(clock, "wall", lambda: time.time() + SESSION + 1)
    file.end_session(file.create_cookie(known[1])[0])
    assert list(map(len, json.loads((tmp_path / "ended.json").read_text()).values())) == [1]


def test_a_damaged_list_of_ended_cookies_lets_no_cookie_in(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    text, _ = file.make("ann")
    known = file.find(text)
    assert known is not None
    cookie = file.create_cookie(known)[0]
    (tmp_path / "ended.json").write_text("[")
    assert file.find_session(cookie) is None
    assert file.find(text) == known


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that exists is read; without one the portal says what failed."""
    key = TokenFile(tmp_path / "old").load_key()

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert TokenFile(tmp_path / "old").load_key() == key
    with pytest.raises(StorageError, match=r"cannot lock .*/new/tokens.lock: No locks available"):
        TokenFile(tmp_path / "new").load_key()
