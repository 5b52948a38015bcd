"""Whatever a server answers is understood or refused by an error of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.hadoop.errors import (
    AccessControlError,
    HadoopError,
    InvalidTokenError,
    IpcProtocolError,
    LoginError,
    RemoteError,
    StandbyError,
)
from tony.hadoop.hdfs.file_system import FileKind
from tony.hadoop.hdfs.webhdfs_messages import build_refusal, parse_answer, parse_file_status, parse_listing

#: As a real NameNode (3.4.2) writes it.
REAL = {
    "accessTime": 1795272515850,
    "blockSize": 134217728,
    "childrenNum": 0,
    "fileId": 16397,
    "group": "root",
    "length": 16211,
    "modificationTime": 1795272515963,
    "owner": "root",
    "pathSuffix": "localhost_40259",
    "permission": "1640",
    "replication": 1,
    "storagePolicy": 0,
    "type": "FILE",
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["DirectoryListing", "partialListing", "FileStatuses", "FileStatus", "remainingEntries"])
            | st.sampled_from(["RemoteException", "javaClassName", "exception", "message"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_a_real_status() -> None:
    found = parse_file_status(REAL, "here")
    assert (found.name, found.kind, found.length, found.permission) == ("localhost_40259", FileKind.FILE, 16211, 0o1640)
    assert (found.modified_ms, found.accessed_ms) == (1795272515963, 1795272515850)


@given(field=st.sampled_from(sorted(REAL)), value=_JSON)
def test_a_field_that_is_something_else(field: str, value: Any) -> None:
    """One field changed to anything: read, or refused."""
    try:
        parse_file_status({**REAL, field: value}, "here")
    except IpcProtocolError:
        pass


@given(value=_JSON, data=st.binary(max_size=40), status=st.integers(300, 599))
def test_garbage(value: Any, data: bytes, status: int) -> None:
    """JSON of any shape and bytes that are none."""
    for body in (json.dumps(value).encode(), data):
        assert isinstance(build_refusal(status, body, "here"), HadoopError)
        try:
            parse_listing(parse_answer(body, "here"), "here")
        except IpcProtocolError:
            pass


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("org.apache.hadoop.security.token.SecretManager$InvalidToken: token can't be found", InvalidTokenError),
        ("org.apache.hadoop.security.token.SecretManager$InvalidToken: StandbyException", StandbyError),
        ("org.apache.hadoop.ipc.StandbyException: not now", StandbyError),
        ("", RemoteError),
    ],
)
def test_errors_of_a_token_are_unwrapped(message: str, kind: type[RemoteError]) -> None:
    """While the NameNode resolves a token's user, it reports every failure as a SecurityException."""
    told = {
        "javaClassName": "java.lang.SecurityException",
        "message": f"Failed to obtain user group information: {message}",
    }
    error = build_refusal(403, json.dumps({"RemoteException": told}).encode(), "here")
    assert type(error) is kind


def test_refusals_without_an_exception() -> None:
    """Pages of gateways and of Jetty: the status tells, and the words of the page."""
    assert isinstance(build_refusal(401, b"<html>Authentication required</html>", "here"), LoginError)
    assert isinstance(build_refusal(403, b"<h1>Forbidden</h1>", "here"), AccessControlError)
    with pytest.raises(IpcProtocolError, match=r"^here: HTTP status 502: Bad Gateway$"):
        raise build_refusal(502, b"<html><h1>Bad Gateway</h1></html>", "here")
