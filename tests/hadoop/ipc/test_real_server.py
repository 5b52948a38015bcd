"""Our connections against Hadoop's own RPC server: SIMPLE, TOKEN and KERBEROS with all protections.

Java plays the service and a real KDC gives the tickets; nothing here knows how the other side is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.hadoop import java_daemon, kerberos
from tests.hadoop.ipc.echo import Said
from tests.hadoop.java_daemon import JavaDaemon
from tests.hadoop.kerberos import REALM, Kdc
from tony.address import Address
from tony.hadoop.errors import (
    AccessControlError,
    ApplicationNotFoundError,
    AuthorizationError,
    ConnectError,
    InvalidTokenError,
    LoginDroppedError,
    LoginError,
    NoSuchMethodError,
    NoSuchProtocolError,
    RemoteError,
    SaslError,
    StandbyError,
)
from tony.hadoop.ipc.connection import IpcConnection, connect
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.ipc.tcp_connection import ConnectionOptions
from tony.hadoop.sasl.digest_layers import Protection
from tony.hadoop.tokens import TokenCredentials, read_file, write_file
from tony.hadoop.wire.application_client import GET_QUEUE_INFO, GetQueueInfoRequest
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import Method, Token

pytestmark = [
    pytest.mark.skipif(bool(java_daemon.missing()), reason=java_daemon.missing()),
    pytest.mark.slow,
]
with_kerberos = pytest.mark.skipif(bool(kerberos.missing()), reason=kerberos.missing())

ALL = "authentication,integrity,privacy"
SERVERS = [f"{auth}:{each}" for auth in ("simple", "token") for each in (*ALL.split(","), ALL)]
KERBEROS_SERVERS = [f"kerberos:{each}" for each in (*ALL.split(","), ALL)]
PATTERNS = [f"*/localhost@{REALM}", "rm/local*", f"rm/*@*{REALM[-4:]}"]
PROTOCOL = GET_QUEUE_INFO.protocol
RM = f"rm/_HOST@{REALM}"
CREDENTIALS = TokenCredentials(
    tokens={
        "a": Token(identifier=b"\0\xff", password=b"p" * 200, kind="K", service="10.0.0.1:1"),
        "": Token(identifier=b"", password=b"", kind="YARN_AM_RM_TOKEN", service=""),
        "ünï": Token(identifier=b"x" * 70_000, password=b"\x80", kind="Ω", service="ha-hdfs:ns"),
    },
    secrets={"s": b"\1" * 130, "empty": b""},
)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | None]:
    """A KDC for this file's tests, where there is one."""
    if kerberos.missing():
        yield None
        return
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    try:
        kdc.start()
        yield kdc
    finally:
        kdc.stop()


@pytest.fixture(scope="module")
def daemon(kdc: Kdc | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDaemon]:
    folder = tmp_path_factory.mktemp("java")
    write_file(folder / "tokens", CREDENTIALS)
    servers, properties, environment = SERVERS, {}, {}
    if kdc is not None:
        servers = SERVERS + KERBEROS_SERVERS
        properties = {
            "principal": f"rm/localhost@{REALM}",
            "keytab": str(kdc.keytab("rm/localhost")),
            "java.security.krb5.conf": kdc.environment["KRB5_CONFIG"],
        }
        environment = kdc.environment
    daemon = JavaDaemon(folder)
    try:
        daemon.start(folder / "tokens", servers, properties, environment)
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture
def alice(kdc: Kdc | None, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    assert kdc is not None
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", kdc.ticket("alice"))
    return kdc


async def _to(address: Address, login: LoginIdentity) -> IpcConnection:
    return await connect(address, login, protocol=PROTOCOL)


async def _echo(connection: IpcConnection, text: str) -> str | None:
    answer = await connection.call(GET_QUEUE_INFO, GetQueueInfoRequest(queue=text))
    return answer.queue.name if answer.queue else None


async def _conversation(address: Address, login: LoginIdentity) -> str | None:
    """Small and great calls, one by one and many at once, and an exception between; who the server says we are."""
    connection = await _to(address, login)
    try:
        slow = asyncio.create_task(_echo(connection, "slow"))
        for size in (0, 1, 7, 100, 65_536, 300_000):
            assert "x" * size == await _echo(connection, "x" * size)
        words = [f"word-{number}" * number for number in range(40)]
        assert words == list(await asyncio.gather(*(_echo(connection, word) for word in words)))
        with pytest.raises(StandbyError, match=r"getQueueInfo: StandbyException: this one sleeps$"):
            await _echo(connection, "standby")
        assert "slow" == await slow
        return await _echo(connection, "whoami")
    finally:
        await connection.close()


async def test_simple(daemon: JavaDaemon) -> None:
    """A name that is believed, and one that speaks for another."""
    address = daemon.address("simple:authentication")
    assert "alice null SIMPLE" == await _conversation(address, LoginIdentity(user="alice"))
    assert "bob alice SIMPLE" == await _conversation(address, LoginIdentity(user="bob", real_user="alice"))


@pytest.mark.parametrize("server", SERVERS)
async def test_token(daemon: JavaDaemon, server: str) -> None:
    """A token under every protection; a server that takes SIMPLE too offers both."""
    login = LoginIdentity(token=daemon.tokens["carol"])
    assert "carol null TOKEN" == await _conversation(daemon.address(server), login)


@pytest.mark.parametrize("protection", Protection)
async def test_token_as_we_want_it(daemon: JavaDaemon, protection: Protection) -> None:
    login = LoginIdentity(token=daemon.tokens["carol"], protections=(protection,))
    assert "carol null TOKEN" == await _conversation(daemon.address(f"token:{ALL}"), login)


@pytest.mark.parametrize("cipher", ["rc4", "3des", "rc4-56", "rc4-40"])
async def test_ciphers(daemon: JavaDaemon, cipher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cipher of Java's that is of any use."""
    if cipher == "3des":
        pytest.importorskip("cryptography")
    monkeypatch.setattr("tony.hadoop.sasl.digest_layers.find_usable_ciphers", lambda: (cipher,))
    login = LoginIdentity(token=daemon.tokens["carol"])
    assert "carol null TOKEN" == await _conversation(daemon.address("token:privacy"), login)


@with_kerberos
@pytest.mark.parametrize("server", KERBEROS_SERVERS)
async def test_token_where_kerberos_is_spoken(daemon: JavaDaemon, server: str) -> None:
    """Inside containers there are tokens and no tickets."""
    login = LoginIdentity(token=daemon.tokens["carol"])
    assert "carol null TOKEN" == await _conversation(daemon.address(server), login)


@with_kerberos
@pytest.mark.parametrize("server", KERBEROS_SERVERS)
async def test_kerberos(daemon: JavaDaemon, alice: Kdc, server: str) -> None:
    user = await _conversation(daemon.address(server), LoginIdentity(server_principal=RM))
    assert f"alice@{REALM} null KERBEROS" == user


@with_kerberos
@pytest.mark.parametrize("protection", Protection)
async def test_kerberos_as_we_want_it(daemon: JavaDaemon, alice: Kdc, protection: Protection) -> None:
    """Of all that the server offers, ours; the service is found by host, or by its full principal."""
    names: list[dict[str, str]] = [{"server_principal": RM}, *({"server_pattern": each} for each in PATTERNS)]
    for name in names:
        login = LoginIdentity(protections=(protection,), **name)  # type: ignore[arg-type]
        user = await _conversation(daemon.address(f"kerberos:{ALL}"), login)
        assert f"alice@{REALM} null KERBEROS" == user


@with_kerberos
async def test_kerberos_for_another_user(daemon: JavaDaemon, alice: Kdc) -> None:
    """Alice may speak for bob; bob may not speak for alice."""
    address = daemon.address("kerberos:privacy")
    user = await _conversation(address, LoginIdentity(server_principal=RM, user="bob"))
    assert f"bob alice@{REALM} KERBEROS" == user


@with_kerberos
async def test_impersonation_that_is_not_allowed(
    daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server names both users."""
    monkeypatch.setenv("KRB5CCNAME", alice.ticket("bob"))
    connection = await _to(daemon.address("kerberos:integrity"), LoginIdentity(server_principal=RM, user="alice"))
    with pytest.raises(AuthorizationError, match=f"bob@{REALM} is not allowed to impersonate alice"):
        await _echo(connection, "x")
    await connection.close()


@with_kerberos
async def test_a_keytab_instead_of_a_ticket(daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library gets the ticket itself."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{alice.folder}/fresh.cc")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(alice.keytab("dora")))
    user = await _conversation(daemon.address("kerberos:privacy"), LoginIdentity(server_principal=RM))
    assert f"dora@{REALM} null KERBEROS" == user


@with_kerberos
async def test_no_ticket(daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    address = daemon.address("kerberos:privacy")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{alice.folder}/none.cc")
    with pytest.raises(LoginError, match=rf"{address}: .*rm/localhost.*kinit"):
        await _to(address, LoginIdentity(server_principal=RM))


@with_kerberos
async def test_an_expired_ticket(daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", alice.ticket("alice", lifetime="1s"))
    async with asyncio.timeout(30):
        while True:
            try:
                connection = await _to(daemon.address("kerberos:privacy"), LoginIdentity(server_principal=RM))
            except LoginError as error:
                said = str(error)
                break
            await connection.close()
            await asyncio.sleep(0.2)
    assert "expired" in said
    assert "kinit" in said


@with_kerberos
async def test_no_kdc(daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A realm whose KDC is not there is an error with its name."""
    settings = alice.folder / "elsewhere.conf"
    text = (alice.folder / "krb5.conf").read_text()
    settings.write_text("\n".join("  kdc = 127.0.0.1:1" if "kdc =" in line else line for line in text.splitlines()))
    monkeypatch.setenv("KRB5_CONFIG", str(settings))
    with pytest.raises(LoginError, match=REALM):
        await _to(daemon.address("kerberos:privacy"), LoginIdentity(server_principal=RM))


@with_kerberos
async def test_a_silent_kdc_times_out(daemon: JavaDaemon, alice: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The login is given up while the library still waits for the KDC in its thread; nothing breaks when it ends."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = alice.folder / "silent.conf"
        text = (alice.folder / "krb5.conf").read_text()
        kdc = f"  kdc = 127.0.0.1:{silent.getsockname()[1]}"
        settings.write_text("\n".join(kdc if "kdc =" in line else line for line in text.splitlines()))
        monkeypatch.setenv("KRB5_CONFIG", str(settings))
        address = daemon.address("kerberos:privacy")
        with pytest.raises(ConnectError, match=rf"{address}.*0\.3 s"):
            await connect(
                address,
                LoginIdentity(server_principal=RM),
                protocol=PROTOCOL,
                options=ConnectionOptions(login_timeout=0.3),
            )
    monkeypatch.setenv("KRB5_CONFIG", alice.environment["KRB5_CONFIG"])
    assert f"alice@{REALM} null KERBEROS" == await _conversation(address, LoginIdentity(server_principal=RM))


@with_kerberos
async def test_many_logins_at_once(daemon: JavaDaemon, alice: Kdc) -> None:
    """The library is used by several threads; no login is taken for a repetition of another."""
    address = daemon.address("kerberos:integrity")
    connections = await asyncio.gather(*(_to(address, LoginIdentity(server_principal=RM)) for _ in range(20)))
    words = [f"word-{number}" for number in range(20)]
    pairs = zip(connections, words, strict=True)
    assert words == list(await asyncio.gather(*(_echo(connection, word) for connection, word in pairs)))
    for connection in connections:
        await connection.close()


@with_kerberos
@pytest.mark.parametrize("principal", [f"nm/_HOST@{REALM}", "rm/other.example.com@TONY.TEST", "rm/_HOST@ELSEWHERE"])
async def test_a_daemon_that_is_another(daemon: JavaDaemon, alice: Kdc, principal: str) -> None:
    """A key of the realm does not make it the expected daemon."""
    with pytest.raises(LoginError, match=r"is expected|ELSEWHERE"):
        await _to(daemon.address("kerberos:authentication"), LoginIdentity(server_principal=principal))


@with_kerberos
async def test_simple_where_kerberos_is_wanted(daemon: JavaDaemon) -> None:
    """The first call is refused, in Hadoop's own words."""
    connection = await _to(daemon.address("kerberos:authentication"), LoginIdentity(user="alice"))
    with pytest.raises(AccessControlError, match=r"SIMPLE authentication is not enabled\.  Available:\[TOKEN, KERB"):
        await _echo(connection, "x")
    await connection.close()


async def test_simple_where_a_token_is_wanted(daemon: JavaDaemon) -> None:
    """As the ResourceManager's scheduler and NodeManagers do on every cluster."""
    connection = await _to(daemon.address("token:authentication"), LoginIdentity(user="alice"))
    with pytest.raises(AccessControlError, match=r"Available:\[TOKEN\]"):
        await _echo(connection, "x")
    await connection.close()


async def test_kerberos_where_there_is_none(daemon: JavaDaemon) -> None:
    """No silent fall back to SIMPLE."""
    address = daemon.address("simple:authentication")
    with pytest.raises(LoginError, match=rf"{address}.*TOKEN, SIMPLE.*KERBEROS"):
        await _to(address, LoginIdentity(server_principal=RM))
    login = LoginIdentity(server_principal=RM, fallback_to_simple=True, user="alice")
    assert "alice null SIMPLE" == await _conversation(address, login)


async def test_wrong_tokens(daemon: JavaDaemon) -> None:
    """A wrong password, an expired one, one of another cluster."""
    address = daemon.address("token:authentication")
    carol = daemon.tokens["carol"]
    with pytest.raises(SaslError, match=rf"{address}: SaslException: .*Mismatched response"):
        await _to(address, LoginIdentity(token=replace(carol, password=b"wrong")))
    with pytest.raises(InvalidTokenError, match="has expired"):
        await _to(address, LoginIdentity(token=daemon.tokens["expired"]))
    with pytest.raises(LoginDroppedError, match=f"{address}.*token"):
        await _to(address, LoginIdentity(token=replace(carol, identifier=b"\xff\xfe")))


async def test_errors(daemon: JavaDaemon) -> None:
    """Java's exceptions come as ours, and the connection lives on."""
    connection = await _to(daemon.address("simple:authentication"), LoginIdentity(user="alice"))
    unknown = Method(protocol=PROTOCOL, name="sing", request=Said, response=Said)
    foreign = Method(protocol="org.apache.hadoop.Other", name="sing", request=Said, response=Said)
    unimplemented = Method(protocol=PROTOCOL, name="getNewApplication", request=Said, response=Said)
    with pytest.raises(ApplicationNotFoundError, match="no such application"):
        await _echo(connection, "missing")
    with pytest.raises(NoSuchMethodError, match="Unknown method sing called on"):
        await connection.call(unknown, Said())
    with pytest.raises(NoSuchProtocolError, match=r"org\.apache\.hadoop\.Other"):
        await connection.call(foreign, Said())
    with pytest.raises(RemoteError, match="IOException: not implemented: getNewApplication"):
        await connection.call(unimplemented, Said())
    assert "x" == await _echo(connection, "x")
    await connection.close()


async def test_pings_are_borne(daemon: JavaDaemon) -> None:
    """Hadoop's server takes our pings for what they are, wrapped or not."""
    for server in ("token:authentication", "token:privacy"):
        login = LoginIdentity(token=daemon.tokens["carol"])
        options = ConnectionOptions(ping_interval=0.02)
        connection = await connect(daemon.address(server), login, protocol=PROTOCOL, options=options)
        assert "slow" == await _echo(connection, "slow")
        assert "x" == await _echo(connection, "x")
        await connection.close()


def test_token_files(daemon: JavaDaemon) -> None:
    """Hadoop reads our file and writes the same bytes; we read what it writes in both formats."""
    path = daemon.folder / "tokens"
    assert CREDENTIALS == read_file(path.with_name("tokens.0")) == read_file(path.with_name("tokens.1"))
    assert len(path.read_bytes()) == len(path.with_name("tokens.0").read_bytes())
