"""Java's exceptions become ours by their class names, and their texts fit a terminal."""

from __future__ import annotations

import pytest

from tony.hadoop import errors
from tony.hadoop.errors import RemoteError, build_remote_error

YARN = "org.apache.hadoop.yarn.exceptions."


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.hadoop.ipc.StandbyException", errors.StandbyError),
        ("org.apache.hadoop.ipc.RetriableException", errors.RetriableError),
        ("org.apache.hadoop.security.AccessControlException", errors.AccessControlError),
        ("org.apache.hadoop.security.token.SecretManager$InvalidToken", errors.InvalidTokenError),
        ("org.apache.hadoop.security.authorize.AuthorizationException", errors.AuthorizationError),
        ("javax.security.sasl.SaslException", errors.SaslError),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", errors.SafeModeError),
        ("java.io.FileNotFoundException", errors.FileMissingError),
        (f"{YARN}ApplicationNotFoundException", errors.ApplicationNotFoundError),
        (f"{YARN}ApplicationMasterNotRegisteredException", errors.ApplicationMasterNotRegisteredError),
        (f"{YARN}InvalidResourceRequestException", errors.InvalidResourceRequestError),
        (f"{YARN}NewInSomeVersionException", errors.YarnError),
        ("java.lang.NullPointerException", RemoteError),
        ("", RemoteError),
    ],
)
def test_classes(name: str, expected: type[RemoteError]) -> None:
    """The class name alone decides."""
    error = build_remote_error(name, "why\n\tat a.b(C.java:1)\n\tat d", where="h:1 P.m")
    assert expected is type(error)
    assert "why" == error.remote_message
    assert name == error.class_name
    where, simple, text = str(error).splitlines()[0].split(": ")
    assert ("h:1 P.m", "why") == (where, text)
    assert simple == name.rpartition(".")[2] if name else simple


def test_safe_mode_of_a_pair() -> None:
    """The NameNode of a pair wraps it, so that clients try the other one: it stays retriable."""
    text = "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create file/x. Name node is in safe mode."
    error = build_remote_error("org.apache.hadoop.ipc.RetriableException", text)
    assert isinstance(error, errors.SafeModeError)
    assert isinstance(error, errors.RetriableError)


def test_every_line_of_a_remote_text_is_printable() -> None:
    """No escape sequence, no bell, no text without end."""
    error = build_remote_error("x\x1b[31m\n" * 500, "\x1b]0;title\a\tone\ntwo\r\n" + "z" * 10**6)
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert len(str(error)) < 3000


def test_errors_wrapped_by_the_resource_manager_are_unwrapped() -> None:
    """`YarnException: <class>: <message>`: the inner class counts."""
    wrapper = "org.apache.hadoop.yarn.exceptions.YarnException"
    inner = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    assert type(build_remote_error(wrapper, f"{inner}: Renewal request for unknown token")) is errors.InvalidTokenError
    assert (
        type(build_remote_error(wrapper, "java.security.AccessControlException: User a cannot"))
        is errors.AccessControlError
    )
    assert type(build_remote_error(wrapper, "App without class: failed")) is errors.YarnError
