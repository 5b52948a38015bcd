"""Tests of `tony.hadoop.authentication` and `tony.hadoop.hdfs.namenode_rpc`: login identities and server principals."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.hadoop.fake_namenode import FakeNameNode
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.address import Address
from tony.hadoop.authentication import Logins, find_user_name, load_token_file
from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.service_addresses import ServiceAddress, find_name_service
from tony.hadoop.failover import Policy
from tony.hadoop.hdfs import namenode_rpc
from tony.hadoop.ipc.login import LoginIdentity, LoginMethod
from tony.hadoop.sasl.digest_layers import Protection
from tony.hadoop.tokens import TokenCredentials, write_file
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import Token

KERBEROS = {
    "hadoop.security.authentication": "Kerberos",
    "yarn.resourcemanager.principal": "rm/_HOST@EXAMPLE.COM",
    "dfs.namenode.kerberos.principal": "nn/_HOST@EXAMPLE.COM",
}
RM = ServiceAddress(id="", address=Address(host="127.0.0.1", port=8032))
RM_TOKEN = Token(identifier=b"r", password=b"p", kind="RM_DELEGATION_TOKEN", service="10.0.0.1:8032,127.0.0.1:8032")
HDFS_TOKEN = Token(identifier=b"h", password=b"p", kind="HDFS_DELEGATION_TOKEN", service="ha-hdfs:ns1")
ONE_NODE_TOKEN = replace(HDFS_TOKEN, identifier=b"1", service="127.0.0.1:8020")
AM_TOKEN = Token(identifier=b"a", password=b"p", kind="YARN_AM_RM_TOKEN", service="")
PAIR = {
    "fs.defaultFS": "hdfs://ns1",
    "dfs.ha.namenodes.ns1": "a,b",
    "dfs.namenode.rpc-address.ns1.a": "127.0.0.1",
    "dfs.namenode.rpc-address.ns1.b": "127.0.0.2",
}


def logins(given: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None, *tokens: Token) -> Logins:
    credentials = TokenCredentials(tokens={str(number): token for number, token in enumerate(tokens)})
    return Logins(Configuration.load(given=given), environ or {}, credentials)


def test_a_name_is_enough_where_nothing_is_proved() -> None:
    """HADOOP_USER_NAME before that of the process; another user's with HADOOP_PROXY_USER."""
    mine = pwd.getpwuid(os.geteuid()).pw_name
    assert LoginIdentity(user=mine) == logins().login_for_resource_manager(RM)
    assert LoginIdentity(user="alice") == logins(None, {"HADOOP_USER_NAME": "alice"}).login_for_resource_manager(RM)
    environ = {"HADOOP_USER_NAME": "alice", "HADOOP_PROXY_USER": "bob"}
    assert LoginIdentity(user="bob", real_user="alice") == logins(None, environ).login_for_resource_manager(RM)
    assert mine == find_user_name(Configuration.load(given=KERBEROS), {"HADOOP_USER_NAME": "alice"})


def test_the_user_name_is_the_tokens_owner() -> None:
    """Without a ticket, and whatever the process's user is called."""
    identifier = b"\0" + b"".join(
        [*(bytes([len(each)]) + each for each in (b"ann/node1@EXAMPLE.COM", b"rm", b"")), b"\1\2\3\4"]
    )
    assert "ann" == logins(KERBEROS, {}, replace(HDFS_TOKEN, identifier=identifier)).user


def test_a_user_without_a_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """In images, users are often only numbers."""

    def raise_key_error(_: int) -> object:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", raise_key_error)
    assert "carol" == find_user_name(Configuration.load(), {"USER": "carol"})
    with pytest.raises(ConfigurationError, match="Set HADOOP_USER_NAME"):
        find_user_name(Configuration.load(), {})


def test_a_ticket_is_needed_where_the_cluster_wants_proof() -> None:
    """With the principal of the daemon, and what the site wants for the traffic."""
    given = {**KERBEROS, "hadoop.rpc.protection": "privacy,integrity", "yarn.resourcemanager.principal.pattern": "rm/*"}
    found = logins(given, {"HADOOP_USER_NAME": "alice", "HADOOP_PROXY_USER": "bob"}).login_for_resource_manager(RM)
    expected = LoginIdentity(
        server_principal="rm/_HOST@EXAMPLE.COM",
        server_pattern="rm/*",
        protections=(Protection.PRIVACY, Protection.INTEGRITY),
        user="bob",
    )
    assert expected == found
    service = find_name_service(Configuration.load(given=PAIR))
    name_node = logins(KERBEROS).login_for_name_node(service)(service.name_nodes[0])
    assert LoginIdentity(server_principal="nn/_HOST@EXAMPLE.COM") == name_node


def test_settings_without_a_login_are_reported() -> None:
    key = r"hadoop\.security\.authentication"
    with pytest.raises(ConfigurationError, match=rf"yarn\.resourcemanager\.principal \(not set\).*{key}.*kerberos"):
        logins({"hadoop.security.authentication": "kerberos"}).login_for_resource_manager(RM)
    with pytest.raises(ConfigurationError, match=rf"{key} = plain \(given\).*simple.*kerberos"):
        logins({"hadoop.security.authentication": "plain"})
    with pytest.raises(ConfigurationError, match=r"hadoop\.rpc\.protection = secret \(given\)"):
        logins({"hadoop.rpc.protection": "secret"})


def test_a_token_wins_over_other_methods() -> None:
    """If it is for this daemon: of the kind, and of the service."""
    found = logins(KERBEROS, {}, HDFS_TOKEN, RM_TOKEN).login_for_resource_manager(RM)
    assert (LoginMethod.TOKEN, RM_TOKEN, False) == (found.method, found.token, found.fallback_to_simple)
    other = ServiceAddress(id="", address=Address(host="127.0.0.9", port=8032))
    assert LoginMethod.KERBEROS is logins(KERBEROS, {}, RM_TOKEN).login_for_resource_manager(other).method
    insecure = logins(None, {"HADOOP_USER_NAME": "alice"}, RM_TOKEN).login_for_resource_manager(RM)
    assert (RM_TOKEN, True, "alice") == (insecure.token, insecure.fallback_to_simple, insecure.user)


def test_a_file_system_has_one_token_or_one_for_each_name_node() -> None:
    """By the name of the pair first."""
    service = find_name_service(Configuration.load(given=PAIR))
    first, second = service.name_nodes
    both = logins(None, {}, HDFS_TOKEN, ONE_NODE_TOKEN).login_for_name_node(service)
    assert [HDFS_TOKEN, HDFS_TOKEN] == [both(first).token, both(second).token]
    one = logins(None, {}, ONE_NODE_TOKEN).login_for_name_node(service)
    assert [ONE_NODE_TOKEN, None] == [one(first).token, one(second).token]


def test_the_token_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "container_tokens"
    write_file(path, TokenCredentials(tokens={"": AM_TOKEN}))
    environ = {"HADOOP_TOKEN_FILE_LOCATION": str(path)}
    assert (AM_TOKEN,) == Logins(Configuration.load(), environ).credentials.tokens_by_kind("YARN_AM_RM_TOKEN")
    assert {} == load_token_file({}).tokens


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"HDTX", "does not begin with HDTS")])
def test_an_unreadable_token_file_is_reported(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_token_file({"HADOOP_TOKEN_FILE_LOCATION": str(path)})
    assert f"HADOOP_TOKEN_FILE_LOCATION = {path}" in str(caught.value)


async def test_a_client_is_built_from_a_folder(tmp_path: Path) -> None:
    """Address and user are those of the files and the environment."""
    async with FakeIpcServer() as server:
        FakeNameNode().serve(server)
        core = f"<property><name>fs.defaultFS</name><value>hdfs://{server.address}</value></property>"
        (tmp_path / "core-site.xml").write_text(f"<configuration>{core}</configuration>")
        environ = {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": "alice"}
        settings = Configuration.load(environ=environ)
        service, policy = find_name_service(settings), Policy(give_up_after=1)
        async with namenode_rpc.create_name_node(settings, Logins(settings, environ), service, policy=policy) as names:
            assert await names.recover_lease("/a")
        assert "alice" == server.calls[0].caller.user
