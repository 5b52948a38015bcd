"""Connections to the daemons of a real cluster: calls, and what each says to a client that came to the wrong place."""

from __future__ import annotations

import asyncio

import pytest

from tests.hadoop.ipc.echo import FOREIGN, Said
from tony.address import Address, parse_address
from tony.hadoop.configuration import Configuration
from tony.hadoop.ipc.connection import connect
from tony.hadoop.ipc.errors import (
    AccessControlError,
    ApplicationNotFoundError,
    AuthorizationError,
    InvalidTokenError,
    IpcProtocolError,
    LoginDroppedError,
    LoginError,
    NoSuchMethodError,
    NoSuchProtocolError,
    RemoteError,
)
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.tokens.credentials import AM_RM
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire.application_client import (
    GET_APPLICATION_REPORT,
    GET_NEW_APPLICATION,
    GetApplicationReportRequest,
    GetNewApplicationRequest,
    GetNewApplicationResponse,
)
from tony.hadoop.wire.rpc_method import Method
from tony.hadoop.wire.yarn_records import ApplicationId
from tony.mini.cluster import MiniCluster

ALICE = LoginIdentity.from_user("alice")
#: An attempt's that no ResourceManager ever had.
STRANGER = HadoopToken(identifier=bytes.fromhex("0a0b0a070801108080800110011001"), password=b"x", kind=AM_RM)


@pytest.fixture
def addresses(cluster: MiniCluster) -> dict[str, Address]:
    """Where the daemons listen, by the settings of the cluster."""
    settings = Configuration.load(cluster.conf, {})
    keys = {
        "rm": "yarn.resourcemanager.address",
        "scheduler": "yarn.resourcemanager.scheduler.address",
        "web": "yarn.resourcemanager.webapp.address",
        "namenode": "dfs.namenode.rpc-address",
    }
    return {name: parse_address(settings.get(key) or "") for name, key in keys.items()}


async def _ask(address: Address, login: LoginIdentity) -> GetNewApplicationResponse:
    connection = await connect(address, login, protocol=GET_NEW_APPLICATION.protocol)
    try:
        return await connection.call(GET_NEW_APPLICATION, GetNewApplicationRequest(), timeout=30)
    finally:
        await connection.close()


async def test_new_applications(addresses: dict[str, Address]) -> None:
    """One connection, two hundred calls at once, and each answer is another application."""
    connection = await connect(addresses["rm"], ALICE, protocol=GET_NEW_APPLICATION.protocol)
    calls = (connection.call(GET_NEW_APPLICATION, GetNewApplicationRequest()) for _ in range(200))
    answers = await asyncio.gather(*calls)
    assert 200 == len({answer.application_id for answer in answers})
    unknown = GetApplicationReportRequest(application_id=ApplicationId(number=1, cluster_timestamp=1))
    with pytest.raises(ApplicationNotFoundError, match="application_1_0001"):
        await connection.call(GET_APPLICATION_REPORT, unknown)
    singing = Method(protocol=GET_NEW_APPLICATION.protocol, name="sing", request=Said, response=Said)
    with pytest.raises(
        NoSuchMethodError, match=rf"{addresses['rm']} ApplicationClientProtocol\.sing: .*Unknown method"
    ):
        await connection.call(singing, Said())
    with pytest.raises(NoSuchProtocolError, match=r"Unknown protocol: org\.apache\.hadoop\.fake\.OtherPB"):
        await connection.call(FOREIGN, Said())
    assert connection.is_open
    await connection.close()


async def test_the_wrong_place(addresses: dict[str, Address]) -> None:
    with pytest.raises(NoSuchProtocolError, match="belongs to another kind of daemon"):
        await _ask(addresses["namenode"], ALICE)
    with pytest.raises(IpcProtocolError, match=rf"{addresses['web']}.*HTTP"):
        await _ask(addresses["web"], ALICE)
    with pytest.raises(AccessControlError, match=r"SIMPLE authentication is not enabled\.  Available:\[TOKEN\]"):
        await _ask(addresses["scheduler"], ALICE)


async def test_the_wrong_user(addresses: dict[str, Address]) -> None:
    """Impersonation that is not allowed, and a ticket where none is wanted."""
    with pytest.raises(AuthorizationError, match="alice is not allowed to impersonate bob"):
        await _ask(addresses["rm"], LoginIdentity.from_user("bob", "alice"))
    with pytest.raises(LoginError, match=rf"{addresses['rm']}.*TOKEN, SIMPLE.*KERBEROS"):
        await _ask(addresses["rm"], LoginIdentity.kerberos("rm/_HOST@EXAMPLE.COM"))


async def test_the_wrong_token(addresses: dict[str, Address]) -> None:
    """One of another cluster's, and one that cannot be read: each port has its own way to say no."""
    with pytest.raises(InvalidTokenError, match="not found in AMRMTokenSecretManager"):
        await _ask(addresses["scheduler"], LoginIdentity.with_token(STRANGER))
    garbage = LoginIdentity.with_token(HadoopToken(identifier=b"\xff\xfegarbage", password=b"x", kind=AM_RM))
    with pytest.raises(LoginDroppedError, match=rf"{addresses['scheduler']}.*token.*cluster"):
        await _ask(addresses["scheduler"], garbage)
    with pytest.raises(RemoteError, match=str(addresses["rm"])):
        await _ask(addresses["rm"], garbage)
