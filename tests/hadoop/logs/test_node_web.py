"""Logs of running containers, from a fake NodeManager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hadoop.fake_node_web import FakeNodeWeb
from tony.hadoop.errors import ConnectError, ConnectionLostError
from tony.hadoop.logs.node_web import NodeLog, NodeWeb, NodeWebError

_C = "container_1_0001_01_000001"
#: What pages for people would spoil: HTML, entities, what is no UTF-8, the words around a log, and their end.
_NASTY = b'<b>&amp; & "q" gr\xc3\xbc\xc3\x9f \xff\xfe\r\n\ttab\nLogContents:\nEnd of LogType:stdout\n</pre>'


@pytest.fixture(name="node")
def _node() -> Iterator[FakeNodeWeb]:
    with FakeNodeWeb() as node:
        node.containers[_C] = {"stdout": _NASTY, "empty": b"", "odd name/ü": b"odd"}
        yield node


@pytest.fixture(name="web")
def _web(node: FakeNodeWeb) -> Iterator[NodeWeb]:
    with NodeWeb(node.url, "alice") as web:
        yield web


def _read(web: NodeWeb, name: str, offset: int = 0) -> bytes:
    with web.open(_C, name, offset) as stream:
        return stream.read()


def test_listing_and_content(node: FakeNodeWeb, web: NodeWeb) -> None:
    """Names and lengths, and the very bytes, whatever they are; the user is named."""
    assert web.list_files(_C) == (
        NodeLog(name="empty", length=0),
        NodeLog(name="odd name/ü", length=3),
        NodeLog(name="stdout", length=len(_NASTY)),
    )
    assert _read(web, "stdout") == _NASTY
    assert _read(web, "odd name/ü") == b"odd"
    assert _read(web, "empty") == b""
    assert all(query["user.name"] == ["alice"] for query in node.queries)


def test_offsets(node: FakeNodeWeb, web: NodeWeb) -> None:
    """From every offset of a short file, and from some of one that is longer than what is requested at first."""
    for offset in range(len(_NASTY) + 3):
        assert _read(web, "stdout", offset) == _NASTY[offset:]
    long = bytes(range(256)) * 2000
    node.containers[_C]["long"] = long
    for offset in (1, 65_535, 65_536, 300_000, len(long) - 65_536, len(long) - 1, len(long), len(long) + 1):
        assert _read(web, "long", offset) == long[offset:]
    with web.open(_C, "long", 5) as stream:
        assert stream.read(7) == long[5:12]
        assert stream.position == 12


def test_a_growing_file_is_followed(node: FakeNodeWeb, web: NodeWeb) -> None:
    """Opened again and again where one has come to, it gives every byte once, however much was added."""
    node.containers[_C]["stdout"] = b""
    written = b""
    got = b""
    for size in (0, 1, 10, 0, 70_000, 3, 200_000, 65_536):
        written += bytes(size % 251 for _ in range(size))
        node.containers[_C]["stdout"] = written
        got += _read(web, "stdout", len(got))
        assert got == written


def test_a_file_that_grows_between_two_requests(node: FakeNodeWeb, web: NodeWeb) -> None:
    """What is added while one asks does not make a gap."""
    node.containers[_C]["stdout"] = b"0123456789"

    def grow() -> None:
        node.containers[_C]["stdout"] += b"x" * 100_000

    node.before = grow
    found = _read(web, "stdout", 5)
    assert found.startswith(b"56789x")
    assert set(found[5:]) == {ord("x")}


def test_a_file_that_was_cut_short(node: FakeNodeWeb, web: NodeWeb) -> None:
    """An offset behind the end gives nothing, and the length tells why."""
    node.containers[_C]["stdout"] = b"new"
    with web.open(_C, "stdout", 100) as stream:
        assert stream.read() == b""
        assert stream.length == 3


def test_removed_logs(node: FakeNodeWeb, web: NodeWeb) -> None:
    """No container, no file, or a redirect to a log server; other refusals are other errors."""
    for ask in (
        lambda: web.list_files("container_2"),
        lambda: web.open("container_2", "x"),
        lambda: web.open(_C, "nope"),
    ):
        with pytest.raises(NodeWebError) as caught:
            ask()
        assert caught.value.is_missing
    node.answer = lambda path: (307, {"Location": "http://127.0.0.1:1/jobhistory"}, b"")
    with pytest.raises(NodeWebError, match="log server") as caught:
        web.open(_C, "stdout")
    assert caught.value.is_missing
    node.answer = lambda path: (401, {}, b"<html>Authentication required</html>")
    with pytest.raises(NodeWebError, match="401") as caught:
        web.open(_C, "stdout")
    assert not caught.value.is_missing


def test_a_node_that_breaks_off(node: FakeNodeWeb, web: NodeWeb) -> None:
    """What came is given, and the rest is an error, not an end."""
    node.containers[_C]["long"] = b"x" * 200_000
    node.cut = 50_000
    with web.open(_C, "long") as stream, pytest.raises((ConnectionLostError, NodeWebError)):
        stream.read()


def test_a_node_that_is_down() -> None:
    with pytest.raises(ConnectError):
        NodeWeb("http://127.0.0.1:1").list_files(_C)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"raw content of an old NodeManager",
        b"LogLength:99999999999999999999999\nLogContents:\n",
        b"LogLength:-1\nLogContents:\n",
        b"LogContents:\n",
        b"x" * 100_000,
    ],
)
def test_other_responses_are_refused(node: FakeNodeWeb, web: NodeWeb, body: bytes) -> None:
    """In bounded memory."""
    node.answer = lambda path: (200, {}, body)
    with pytest.raises(NodeWebError):
        web.open(_C, "stdout")


def test_listings_of_all_shapes(node: FakeNodeWeb, web: NodeWeb) -> None:
    """A list of one as the one itself, several kinds of logs, and what is no listing."""
    one = b'{"containerLogInfo": {"fileName": "a", "fileSize": "1"}, "logAggregationType": "LOCAL"}'
    other = b'{"containerLogInfo": [{"fileName": "b", "fileSize": 2}], "logAggregationType": "AGGREGATED"}'
    node.answer = lambda path: (200, {}, b'{"containerLogsInfo": [%s, %s]}' % (one, other))
    assert web.list_files(_C) == (NodeLog(name="a", length=1),)
    for body in (
        b"[]",
        b"{",
        b'{"containerLogsInfo": 1}',
        b'{"containerLogsInfo": {"containerLogInfo": [{}]}}',
        b"[" * 9999,
    ):
        node.answer = lambda path, body=body: (200, {}, body)  # type: ignore[misc]
        with pytest.raises(NodeWebError):
            web.list_files(_C)


@given(body=st.binary(max_size=200))
def test_garbage(body: bytes) -> None:
    """Whatever a server says, it is a log or an error of ours."""
    with FakeNodeWeb() as node, NodeWeb(node.url) as web:
        node.answer = lambda path: (200, {}, b"LogLength:5\n" + body)
        for ask in (lambda: web.list_files(_C), lambda: _read(web, "stdout")):
            try:
                ask()
            except NodeWebError:
                pass
