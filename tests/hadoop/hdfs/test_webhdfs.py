"""The WebHDFS client against a fake NameNode and DataNode."""

from __future__ import annotations

import datetime
import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.hadoop.fake_webhdfs import FakeWebHdfs, Trouble
from tony.errors import StorageError
from tony.hadoop.errors import (
    AccessControlError,
    BeingWrittenError,
    CallTimeoutError,
    ConnectError,
    ConnectFailure,
    ConnectionLostError,
    FileExistsAlreadyError,
    FileMissingError,
    HadoopError,
    InvalidTokenError,
    IpcProtocolError,
    NoSpaceError,
    QuotaExceededError,
    RetriableError,
    SafeModeError,
    StandbyError,
)
from tony.hadoop.hdfs.file_system import FileKind, SpaceUsage
from tony.hadoop.hdfs.http import HttpOptions, read_pieces
from tony.hadoop.hdfs.webhdfs import WebHdfs, WebOptions
from tony.hadoop.hdfs.webhdfs_messages import WebLogin

_ODD = "/folder/grüße +%;&=#? \N{SNOWMAN}"
_NO_LISTENER = "http://127.0.0.1:1"


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as cluster:
        yield cluster


@pytest.fixture(name="client")
def _client(cluster: FakeWebHdfs) -> Iterator[WebHdfs]:
    with WebHdfs([cluster.url], WebLogin(user="alice"), WebOptions(timeout=2.0)) as client:
        yield client


def test_a_file_is_written_and_read(client: WebHdfs) -> None:
    """What is created is there with its permission, and read from any offset; what lies behind the end is empty."""
    client.create(_ODD, b"0123456789", permission=0o600)
    assert client.read(_ODD) == b"0123456789"
    assert client.read(_ODD, 3, 4) == b"3456"
    assert client.read(_ODD, 8) == b"89"
    assert client.read(_ODD, 10) == b""
    assert client.read(_ODD, 1000, 5) == b""
    assert client.read(_ODD, 3, 0) == b""
    status = client.get_status(_ODD)
    assert (status.kind, status.length, status.permission, status.owner) == (FileKind.FILE, 10, 0o600, "alice")
    assert status.modified_ms == 1_700_000_000_123


def test_every_kind_of_content_can_be_sent(client: WebHdfs, tmp_path: Path) -> None:
    """Bytes, views and files; of a file that grows meanwhile what it had, and one that shrinks is an error."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 300_000)
    client.create("/file", path)
    client.create("/view", memoryview(b"a view")[2:])
    client.create("/empty", b"")
    assert client.read("/file") == b"x" * 300_000
    assert client.read("/view") == b"view"
    assert client.read("/empty") == b""
    assert b"".join(read_pieces(path, 5)) == b"xxxxx"
    with pytest.raises(StorageError, match="file became 2 bytes shorter"):
        list(read_pieces(path, 300_002))


def test_names_and_attributes(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Folders, listings in several parts, renames, permissions, times, removal."""
    client.make_directories("/a/b", permission=0o710)
    for number in range(8):
        client.create(f"/a/{number}", b"")
    assert [status.name for status in client.list("/a")] == [*"01234567", "b"]
    assert client.list("/a")[-1].kind is FileKind.DIRECTORY
    assert [status.name for status in client.list("/a/1")] == [""]
    assert client.list("/a/b") == ()
    client.rename("/a/1", "/a/b/x")
    assert client.find("/a/1") is None
    with pytest.raises(FileExistsAlreadyError):
        client.rename("/a/2", "/a/3")
    client.rename("/a/2", "/a/3", overwrite=True)
    client.set_times("/a/3", modified_ms=1234567890123)
    status = client.get_status("/a/3")
    assert status.modified_ms == 1234567890123
    with pytest.raises(HadoopError, match="non empty"):
        client.delete("/a")
    assert client.delete("/a", recursive=True)
    assert not client.delete("/a")
    assert sorted(cluster.files) == ["/"]


def test_missing_files_raise_their_own_error(client: WebHdfs) -> None:
    """A missing file is one error everywhere, and a second file of a name another."""
    for ask in (client.get_status, client.list, client.read, client.open):
        with pytest.raises(FileMissingError):
            ask("/nothing")
    with pytest.raises(FileMissingError):
        client.append("/nothing", b"x")
    assert client.find("/nothing") is None
    client.create("/file", b"1")
    with pytest.raises(FileExistsAlreadyError):
        client.create("/file", b"2")
    client.create("/file", b"3", overwrite=True)
    assert client.read("/file") == b"3"


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "/./a", "/a\0b"])
def test_paths_that_are_none(client: WebHdfs, cluster: FakeWebHdfs, path: str) -> None:
    """Such a path never reaches a server."""
    with pytest.raises(ValueError, match=re.escape(repr(path))):
        client.get_status(path)
    assert not cluster.requests


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (Trouble.SAFE_MODE, SafeModeError),
        (Trouble.QUOTA, QuotaExceededError),
        (Trouble.NO_SPACE, NoSpaceError),
        (Trouble.BEING_WRITTEN, BeingWrittenError),
        (Trouble.FORBIDDEN, AccessControlError),
        (Trouble.REDIRECT_ELSEWHERE, IpcProtocolError),
    ],
)
def test_refusals_have_names(client: WebHdfs, cluster: FakeWebHdfs, trouble: Trouble, kind: type[Exception]) -> None:
    """Each way to say no is an error of its own, at once, that names server, operation and path."""
    cluster.fail_next("CREATE", trouble)
    with pytest.raises(kind, match=r"127\.0\.0\.1:\d+ CREATE /f"):
        client.create("/f", b"x")
    assert len(cluster.requests) == 1


def test_servers_that_are_no_namenodes(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Pages instead of answers, and redirects without end."""
    cluster.fail_next("GETFILESTATUS", Trouble.NONSENSE, Trouble.NOT_FOUND_PAGE, Trouble.REDIRECT_FOREVER)
    with pytest.raises(IpcProtocolError, match=rf"{cluster.url} GETFILESTATUS /.*JSON.*a page"):
        client.get_status("/")
    with pytest.raises(IpcProtocolError, match=r"404.*HTTP ERROR 404"):
        client.get_status("/")
    with pytest.raises(IpcProtocolError, match="3 redirects"):
        client.get_status("/")


def test_a_retriable_error_is_retried(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """A NameNode that is starting asks for it, and is called again until it runs."""
    cluster.fail_next("GETFILESTATUS", Trouble.RETRIABLE, Trouble.RETRIABLE)
    assert client.get_status("/").kind is FileKind.DIRECTORY
    cluster.fail_next("GETFILESTATUS", *[Trouble.RETRIABLE] * 30)
    with WebHdfs([cluster.url], WebLogin(), WebOptions(timeout=0.2)) as hasty, pytest.raises(RetriableError):
        hasty.get_status("/")


def test_the_active_namenode_is_found_and_kept() -> None:
    """Dead and standby NameNodes are passed over, and the active one is asked first from then on."""
    with FakeWebHdfs() as standby, FakeWebHdfs() as active:
        standby.fail_next("GETFILESTATUS", *[Trouble.STANDBY] * 9)
        standby.fail_next("CREATE", *[Trouble.STANDBY] * 9)
        with WebHdfs([_NO_LISTENER, standby.url, active.url], WebLogin(user="a"), WebOptions(timeout=5.0)) as client:
            client.create("/f", b"x")
            assert client.get_status("/f").length == 1
            assert [operation for operation, _ in standby.requests] == ["CREATE"]
        with WebHdfs([standby.url], WebLogin()) as lonely, pytest.raises(StandbyError):
            lonely.get_status("/f")


def test_unreachable_servers() -> None:
    """One NameNode that refuses is an error at once; several are tried until the time is up."""
    with pytest.raises(ConnectError) as caught:
        WebHdfs([_NO_LISTENER], WebLogin()).get_status("/")
    assert caught.value.failure is ConnectFailure.REFUSED
    with pytest.raises(ConnectError):
        WebHdfs([_NO_LISTENER, _NO_LISTENER], WebLogin(), WebOptions(timeout=0.3)).get_status("/")


def test_a_namenode_that_hangs() -> None:
    """It takes connections and says nothing: the other one is asked, and from then on first, by new clients as well."""
    with socket.create_server(("127.0.0.1", 0)) as silent, FakeWebHdfs() as active:
        hung = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with WebHdfs([hung, active.url], WebLogin(user="a"), WebOptions(hangs=0.2)) as client:
            with pytest.raises(CallTimeoutError):
                client.delete("/f")  # it may have been done
            client.create("/f", b"x")
            assert client.get_status("/f").length == 1
        with WebHdfs([hung, active.url], WebLogin(user="a"), WebOptions(hangs=60.0)) as another:
            assert another.delete("/f")


def test_the_error_for_an_unreachable_namenode() -> None:
    """It names the file system, the source of its address, and the setting to correct."""
    client = WebHdfs([_NO_LISTENER], WebLogin(), known_as="It is hdfs://nn (fs.defaultFS, core-site.xml:3)")
    with pytest.raises(ConnectError) as caught:
        client.get_status("/")
    assert caught.value.failure is ConnectFailure.REFUSED
    for fact in ("HDFS", _NO_LISTENER, "hdfs://nn (fs.defaultFS, core-site.xml:3)", "dfs.namenode.http-address"):
        assert fact in str(caught.value)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        impatient = WebOptions(http=HttpOptions(timeout=0.1))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CallTimeoutError, match=rf"(?s)HDFS.*{url}.*It is nn.*dfs\.namenode\.http-address"):
            WebHdfs([url], WebLogin(), impatient, known_as="It is nn").get_status("/")


def test_usage_and_quotas_of_a_folder(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Quotas of names and bytes, where there are some; and the remaining capacity."""
    client.make_directories("/a")
    client.create("/a/f", b"12345")
    assert client.get_usage("/a") == SpaceUsage(names=2, most_names=None, space=5, most_space=None)
    cluster.files["/a"].most_names, cluster.files["/a"].most_space = 7, 0
    assert client.get_usage("/a") == SpaceUsage(names=2, most_names=7, space=5, most_space=0)
    assert client.get_remaining() == 1 << 20
    with pytest.raises(FileMissingError):
        client.get_usage("/b")


def test_a_dead_datanode_is_left_out(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """The NameNode believes in dead DataNodes for minutes; they are named to it and another one is requested."""
    cluster.fail_next("CREATE", Trouble.DEAD_DATANODE)
    client.create("/f", b"content")
    assert cluster.queries[-1]["excludedatanodes"] == "127.0.0.1"
    cluster.fail_next("OPEN", Trouble.DEAD_DATANODE)
    assert client.read("/f") == b"content"
    cluster.fail_next("CREATE", *[Trouble.DEAD_DATANODE] * 9)
    with pytest.raises(ConnectError):
        client.create("/g", b"content")


def test_a_datanode_that_breaks_off(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """A read is resumed; whether a write arrived is unknown, so the caller gets an error."""
    client.create("/f", b"0123456789" * 1000)
    cluster.fail_next("OPEN", Trouble.HANG_UP, Trouble.HANG_UP_AFTER_HALF, Trouble.HANG_UP_AFTER_HALF)
    assert client.read("/f") == b"0123456789" * 1000
    cluster.fail_next("OPEN", *[Trouble.HANG_UP] * 9)
    with pytest.raises(ConnectionLostError):
        client.read("/f")
    cluster.fail_next("APPEND", Trouble.HANG_UP_AFTER_ALL)
    with pytest.raises(ConnectionLostError):
        client.append("/f", b"x")


def test_connections_are_kept(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    for _ in range(20):
        client.get_status("/")
    assert cluster.connections == 1


def test_bounds(client: WebHdfs) -> None:
    """What would fill memory is refused, and says how to do without."""
    client.create("/f", b"x" * 1000)
    with pytest.raises(IpcProtocolError, match=r"/f.*999.*stream"):
        client.read("/f", most=999)
    assert len(client.read("/f", most=1000)) == 1000
    client.create("/g", b"")
    with pytest.raises(IpcProtocolError, match=r"^/:.*\b1\b"):
        client.list("/", most=1)


def test_logins(cluster: FakeWebHdfs) -> None:
    """A token stands for itself, a name may act for another one, and the token is in no message."""
    token = WebLogin(user="alice", token="secret-token")
    assert "secret-token" not in repr(token)
    with WebHdfs([cluster.url], WebLogin(user="alice", act_for="bob")) as client:
        client.get_status("/")
    assert cluster.queries[-1] == {"op": "GETFILESTATUS", "user.name": "alice", "doas": "bob"}
    with WebHdfs([cluster.url], token) as client:
        client.get_status("/")
        assert cluster.queries[-1] == {"op": "GETFILESTATUS", "delegation": "secret-token"}
        cluster.fail_next("CREATE", Trouble.DEAD_DATANODE, Trouble.FORBIDDEN)
        with pytest.raises(AccessControlError) as caught:
            client.create("/f", b"")
        assert "secret-token" not in str(caught.value)


def test_a_token_that_ended(cluster: FakeWebHdfs) -> None:
    """A new one is requested once from the login's source; without another it is an error."""
    asked: list[WebLogin | None] = []

    def source(refused: WebLogin | None) -> WebLogin:
        asked.append(refused)
        return WebLogin(token=f"token-{len(asked)}")

    with WebHdfs([cluster.url], source) as client:
        assert asked == []
        client.get_status("/")
        client.get_status("/")
        cluster.fail_next("GETFILESTATUS", Trouble.NO_TOKEN)
        client.get_status("/")
        assert asked == [None, WebLogin(token="token-1")]
        assert cluster.queries[-1]["delegation"] == "token-2"
        cluster.fail_next("CREATE", Trouble.NO_TOKEN)
        client.create("/f", b"x")
        cluster.fail_next("GETFILESTATUS", Trouble.NO_TOKEN, Trouble.NO_TOKEN)
        with pytest.raises(InvalidTokenError):
            client.get_status("/")
    with WebHdfs([cluster.url], WebLogin(token="only")) as client:
        cluster.fail_next("GETFILESTATUS", Trouble.NO_TOKEN)
        with pytest.raises(InvalidTokenError):
            client.get_status("/")


@pytest.mark.parametrize("url", ["namenode:9870", "hdfs://namenode", "http://", "http://a@b", "http://nn?x=y"])
def test_urls_that_are_none(url: str) -> None:
    """The address of a NameNode is one of HTTP, and nothing else."""
    with pytest.raises(ValueError, match="write http://host:9870"):
        WebHdfs([url], WebLogin())


def test_a_gateway_has_a_path(cluster: FakeWebHdfs) -> None:
    """What stands before `/webhdfs/v1` stays; the full path is as good as the base."""
    with WebHdfs([f"{cluster.url}/webhdfs/v1/"], WebLogin()) as client:
        assert client.get_status("/").kind is FileKind.DIRECTORY


def _certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "namenode")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path = folder / "certificate.pem"
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + made.public_bytes(pem))
    return path


def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right authority it works as without TLS; with another, or none, the server is not trusted."""
    certificate = _certificate(tmp_path)
    with FakeWebHdfs(certificate=certificate) as cluster:
        assert cluster.url.startswith("https://")
        with WebHdfs([cluster.url], WebLogin()) as client, pytest.raises(ConnectError, match="SSL_CERT_FILE"):
            client.get_status("/")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with WebHdfs([cluster.url], WebLogin(user="alice")) as client:
            client.create("/f", b"secret")
            assert client.read("/f") == b"secret"
            cluster.fail_next("OPEN", Trouble.DEAD_DATANODE)
            with pytest.raises(IpcProtocolError, match="from https to http://"):
                client.read("/f")
