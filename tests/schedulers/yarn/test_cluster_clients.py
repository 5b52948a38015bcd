"""Which tokens a job gets, and as which user HDFS is accessed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.hadoop.fake_namenode import FakeNameNode
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.errors import PlatformError
from tony.hadoop.authentication import Logins
from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.tokens import TokenCredentials, write_file
from tony.hadoop.wire.rpc import Token
from tony.mini import PROPERTY
from tony.mini.cluster_files import to_xml
from tony.model.state_directory import Home
from tony.schedulers.yarn.cluster_clients import ClusterClients, find_cluster
from tony.schedulers.yarn.settings import YarnSettings, read_settings
from tony.storage.hdfs.delegation_tokens import (
    FileLogin,
    collect_job_credentials,
    find_token_renewer,
    select_program_tokens,
)

#: Without a ticket all of this can be tried where there is no security, too.
ALWAYS = {"dfs.namenode.delegation.token.always-use": "true"}
KERBEROS = {"hadoop.security.authentication": "kerberos", "yarn.resourcemanager.hostname": "RM1"}
ANN = {"HADOOP_USER_NAME": "ann"}


def token(kind: str, service: str = "elsewhere") -> Token:
    return Token(identifier=b"i", password=b"p", kind=kind, service=service)


@asynccontextmanager
async def name_node(*, tokens: bool = True) -> AsyncIterator[str]:
    """The address of one that gives tokens, or does not."""
    async with FakeIpcServer() as server:
        FakeNameNode(tokens=tokens).serve(server)
        yield str(server.address)


async def of_job(given: Mapping[str, str], environ: Mapping[str, str], *more: str) -> TokenCredentials:
    settings = Configuration.load(None, {}, given=given)
    return await collect_job_credentials(settings, Logins(settings, environ), ("", *more))


async def test_one_for_each_file_system() -> None:
    """The default one's and those that the setting names, each once, and named as Java looks for them."""
    async with name_node() as first, name_node() as second:
        given = {"fs.defaultFS": f"hdfs://{first}", **ALWAYS}
        found = await of_job(given, ANN, f"hdfs://{second}/logs", f"hdfs://{second}", f"hdfs://{first}/tmp")
    assert {first, second} == set(found.tokens)
    assert {"HDFS_DELEGATION_TOKEN"} == {each.kind for each in found.tokens.values()}
    assert [first, second] == [each.service for each in found.tokens.values()]


async def test_one_for_a_pair_of_name_nodes() -> None:
    """Whichever is active; its service is the pair's name, by which Hadoop's own clients find it."""
    async with name_node() as active:
        pair = {
            "fs.defaultFS": "hdfs://ns1",
            "dfs.nameservices": "ns1",
            "dfs.ha.namenodes.ns1": "a,b",
            "dfs.namenode.rpc-address.ns1.a": "127.0.0.1:1",
            "dfs.namenode.rpc-address.ns1.b": active,
        }
        found = await of_job({**pair, **ALWAYS}, ANN)
    assert ["ha-hdfs:ns1"] == [each.service for each in found.tokens.values()] == list(found.tokens)


def test_as_a_proxy_user() -> None:
    """The real user authenticates with their own credentials."""
    settings = Configuration.load(None, {}, given={"fs.defaultFS": "hdfs://127.0.0.1:1"})
    cluster = ClusterClients.from_configuration(settings, {**ANN, "HADOOP_PROXY_USER": "bob"})
    login = cluster.file_login(None)
    assert ("bob", "/user/bob/.tony") == (cluster.user, cluster.build_path(".tony"))
    assert {"user.name": "ann", "doas": "bob"} == login.build_query()


async def test_none_where_names_are_believed() -> None:
    """Without security none is requested: the address has no listener."""
    assert not (await of_job({"fs.defaultFS": "hdfs://127.0.0.1:1"}, ANN)).tokens


async def test_a_file_system_that_gives_none() -> None:
    """That it was to give some is only what the client's own settings say."""
    async with name_node(tokens=False) as address:
        assert not (await of_job({"fs.defaultFS": f"hdfs://{address}", **ALWAYS}, ANN)).tokens


async def test_tokens_that_the_user_brings(tmp_path: Path) -> None:
    """It is used, nothing is fetched for it, and tokens that YARN gave to the submitting program are not passed on."""
    ours = token("HDFS_DELEGATION_TOKEN", "127.0.0.1:1")
    hive = token("HIVE_DELEGATION_TOKEN")
    yarns = ["YARN_AM_RM_TOKEN", "RM_DELEGATION_TOKEN", "NMToken", "YARN_CLIENT_TOKEN", "ContainerToken"]
    brought = {"a": ours, "b": hive, **{kind: token(kind) for kind in yarns}}
    write_file(tmp_path / "tokens", TokenCredentials(tokens=brought, secrets={"key": b"1"}))
    environ = {**ANN, "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")}
    found = await of_job({"fs.defaultFS": "hdfs://127.0.0.1:1", **ALWAYS}, environ)
    assert {"a": ours, "b": hive} == found.tokens
    assert {"key": b"1"} == found.secrets
    assert found == select_program_tokens(found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "ann"),
        ({**KERBEROS, "yarn.resourcemanager.principal": "rm/_HOST@X"}, "rm/rm1@X"),
        ({**KERBEROS, "yarn.resourcemanager.principal": "yarn@X"}, "yarn@X"),
    ],
)
def test_the_renewer_of_tokens(given: Mapping[str, str], expected: str) -> None:
    """The ResourceManager, where there is security."""
    assert expected == find_token_renewer(Configuration.load(None, {}, given=given), "ann")


def test_no_renewer() -> None:
    with pytest.raises(ConfigurationError, match=r"yarn\.resourcemanager\.principal \(not set\): is required"):
        find_token_renewer(Configuration.load(None, {}, given=KERBEROS), "ann")


def test_file_login() -> None:
    """A name where names are believed, though there is a token: the pages would not look at it. Else the token."""
    held = TokenCredentials(tokens={"": token("HDFS_DELEGATION_TOKEN", "127.0.0.1:1")})
    plain = Configuration.load(None, {}, given={"fs.defaultFS": "hdfs://127.0.0.1:1"})
    login = FileLogin(plain, Logins(plain, ANN, held))(None)
    assert ("ann", "") == (login.user, login.token)
    secure = Configuration.load(None, {}, given={"fs.defaultFS": "hdfs://127.0.0.1:1", **KERBEROS})
    source = FileLogin(secure, Logins(secure, ANN, held))
    login = source(None)
    assert "" == login.user
    assert login.token
    assert login is source(None)
    assert login == source(login)  # there is no other


def test_the_setting() -> None:
    settings, problems = read_settings({"file_systems": "hdfs://logs, hdfs://nn2:8020"})
    assert not problems
    assert ("hdfs://logs", "hdfs://nn2:8020") == settings.file_systems
    with pytest.raises(ConfigurationError, match=r"fs\.defaultFS"):
        asyncio.run(of_job({"fs.defaultFS": "hdfs://127.0.0.1:1", **ALWAYS}, ANN, "s3a://bucket"))


async def test_file_login_in_a_loop() -> None:
    """It would hold up everything else, so it says what the machine lacks."""
    secure = Configuration.load(None, {}, given={"fs.defaultFS": "hdfs://127.0.0.1:1", **KERBEROS})
    with pytest.raises(PlatformError, match="start a thread"):
        FileLogin(secure, Logins(secure, ANN, TokenCredentials()))(None)


@pytest.mark.parametrize("mini", [True, False])
def test_how_to_mend_a_small_cluster(tmp_path: Path, mini: bool) -> None:
    """Whose ResourceManager does not answer is told with its address; of `tony mini` also what starts it again."""
    (tmp_path / "core-site.xml").write_text(
        to_xml({"fs.defaultFS": "hdfs://127.0.0.1:2", **({PROPERTY: "true"} if mini else {})})
    )
    (tmp_path / "yarn-site.xml").write_text(to_xml({"yarn.resourcemanager.address": "127.0.0.1:1"}))
    cluster = find_cluster(YarnSettings(conf=str(tmp_path)), Home(tmp_path), {})
    (daemon,) = cluster.applications()._proxy.daemons
    assert daemon.source.endswith("; of tony mini: restart it with `tony mini restart rm`") is mini
