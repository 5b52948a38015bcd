"""A job's access to HDFS: what its Secret has, who gets it, and files that pods fetch."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hadoop.sasl.test_keytab import build_record
from tests.kube.fake_api import refuse
from tests.schedulers.kubernetes.fake_cluster import JOBS, Cluster, build_job, submit, use_hadoop
from tests.support.hadoop.fake_namenode import FakeNameNode
from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs
from tests.support.hadoop.ipc_server import FakeIpcServer
from tony.errors import ConfigError, StorageError
from tony.hadoop.configuration import Configuration
from tony.hadoop.tokens import TokenCredentials, from_bytes
from tony.hadoop.wire.rpc import Token
from tony.kube.errors import KubeApiError
from tony.model.staged_files import InPlace, Placement, StagedItem
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes import executor_container, hadoop_access
from tony.schedulers.kubernetes.hadoop_access import (
    HadoopAccess,
    HadoopSummary,
    collect_settings,
    fetch_in_place,
    list_variables,
)
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter
from tony.storage.hdfs import token_renewal
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles

SECRETS = "/api/v1/namespaces/ml/secrets"
TOKEN = Token(identifier=b"i", password=b"p", kind="HDFS_DELEGATION_TOKEN", service="127.0.0.1:8020")


@pytest.fixture
def name_node() -> FakeNameNode:
    return FakeNameNode(tokens=True)


@pytest.fixture
def prepare(
    cluster: Cluster, name_node: FakeNameNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., PreparedJob]]:
    """Prepare a job with settings, on a machine whose Hadoop issues tokens."""
    monkeypatch.setattr(token_renewal, "_MIN_PAUSE_SECONDS", 0.0)
    with FakeIpcServer().in_thread() as server:
        name_node.serve(server)
        uri = f"hdfs://{server.address}"
        conf = {"fs.defaultFS": uri, "dfs.namenode.delegation.token.always-use": "true"}
        use_hadoop(tmp_path, conf, monkeypatch)

        def prepare(**settings: Any) -> PreparedJob:
            cluster.settings |= {"file_systems": [uri], **settings}
            return build_job(cluster, tmp_path)

        yield prepare


def read_secret(cluster: Cluster, job: PreparedJob) -> Mapping[str, bytes]:
    data = cluster.api.objects[SECRETS, f"{job.record.job_id}-hadoop"]["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def create_keytab_secret(cluster: Cluster) -> None:
    keytab = base64.b64encode(b"\5\2" + build_record("renewer", "k8s")).decode()
    cluster.api.objects[SECRETS, "keys"] = {"metadata": {"name": "keys"}, "data": {"keytab": keytab, "krb5.conf": ""}}


def test_tokens_are_in_a_secret_of_the_job(cluster: Cluster, prepare: Callable[..., PreparedJob]) -> None:
    """Its renewer is the submitter; nothing of it is in the Job."""
    job = prepare()
    submit(job)
    found = read_secret(cluster, job)
    (token,) = from_bytes(found["tokens"]).tokens.values()
    assert token.identifier == b"ann ann"
    assert HadoopAccess.decode(found).summary.user == "ann"
    owner = cluster.api.objects[SECRETS, f"{job.record.job_id}-hadoop"]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == cluster.api.objects[JOBS, job.record.job_id]["metadata"]["uid"]


def test_the_am_alone_has_the_keytab(cluster: Cluster, prepare: Callable[..., PreparedJob]) -> None:
    """Its principal is the renewer: the AM may renew the tokens, and nothing else."""
    create_keytab_secret(cluster)
    job = prepare(token_renewer="keys")
    submit(job)
    (token,) = from_bytes(read_secret(cluster, job)["tokens"]).tokens.values()
    assert token.identifier == b"ann renewer/k8s@EXAMPLE.ORG"
    pod = cluster.api.objects[JOBS, job.record.job_id]["spec"]["template"]["spec"]
    assert {"keytab", "hadoop"} <= {each["name"] for each in pod["volumes"]}
    variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert variables["KRB5_CLIENT_KTNAME"] == "FILE:/tony/keytab/keytab"


@pytest.mark.parametrize("data", [None, {}, {"keytab": "AA==", "krb5.conf": ""}])
def test_a_keytab_that_cannot_be_used(
    cluster: Cluster, prepare: Callable[..., PreparedJob], data: Mapping[str, str] | None
) -> None:
    if data is not None:
        cluster.api.objects[SECRETS, "keys"] = {"metadata": {"name": "keys"}, "data": dict(data)}
    with pytest.raises(ConfigError, match="kubectl create secret generic keys --from-file=keytab"):
        submit(prepare(token_renewer="keys"))
    assert cluster.list_left() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"file_systems": ["hdfs://nn"], "staging": "hdfs://nn/x"},
        {"staging": "hdfs://nn/x", "file_systems": []},
        {"history": "hdfs://nn/x", "file_systems": []},
    ],
)
def test_without_a_hadoop_configuration(
    cluster: Cluster,
    prepare: Callable[..., PreparedJob],
    settings: Mapping[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message names the setting by which the job uses HDFS."""
    job = prepare(**settings)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(ConfigError, match="no Hadoop configuration is set") as refused:
        submit(job)
    assert refused.value.problems[0].key == f"scheduler.kubernetes.{next(iter(settings))}"
    assert cluster.list_left() == []


def test_tokens_of_a_submission_that_fails_are_cancelled(
    cluster: Cluster, prepare: Callable[..., PreparedJob], name_node: FakeNameNode
) -> None:
    job = prepare()
    cluster.refused["POST", "secrets"] = refuse(403, "Forbidden")
    with pytest.raises(KubeApiError):
        submit(job)
    assert cluster.list_left() == []
    assert len(name_node.cancelled) == 1


@pytest.mark.parametrize("settings", [{}, {"token_renewer": "keys"}, {"file_systems": []}])
def test_who_does_not_follow_a_job_is_told_that_its_tokens_expire(
    cluster: Cluster, prepare: Callable[..., PreparedJob], settings: Mapping[str, object]
) -> None:
    create_keytab_secret(cluster)
    job = prepare(**settings)
    submitter = KubernetesSubmitter(job.home)
    assert submitter.find_detached_notice() == ""
    asyncio.run(submitter.submit(job))
    assert ("Follow the job" in submitter.find_detached_notice()) == (not settings)


def renew(job: PreparedJob) -> list[str]:
    """Renew the job's tokens as a client that follows it; return what the user is told."""
    notices: list[str] = []
    asyncio.run(KubernetesSubmitter(job.home).renew_tokens(job.folder, notices.append))
    return notices


def test_a_client_that_follows_a_job_renews_its_tokens(
    cluster: Cluster, prepare: Callable[..., PreparedJob], name_node: FakeNameNode
) -> None:
    job = prepare()
    submit(job)
    name_node.expiries = [1.0, 1.0]
    assert renew(job) == []
    assert name_node.renewed == ["ann"] * 2


def test_the_secret_of_a_job_does_not_choose_where_its_follower_authenticates(
    cluster: Cluster, prepare: Callable[..., PreparedJob], name_node: FakeNameNode
) -> None:
    """Neither by settings, nor by the name of a file system."""
    job = prepare()
    submit(job)
    true = HadoopAccess.decode(read_secret(cluster, job))
    (uri,) = true.summary.file_systems
    with FakeIpcServer().in_thread() as server:
        other = FakeNameNode()
        other.serve(server)
        address = str(server.address)
        moved = {"fs.defaultFS": uri, "dfs.nameservices": uri[7:], f"dfs.namenode.rpc-address.{uri[7:]}": address}
        token = Token(identifier=b"i", password=b"p", kind="HDFS_DELEGATION_TOKEN", service=address)
        summary = replace(true.summary, settings=moved, file_systems=(uri, f"hdfs://{address}"))
        credentials = true.credentials.to_extended(token)
        content = HadoopAccess(summary, credentials).encode()
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        cluster.api.objects[SECRETS, f"{job.record.job_id}-hadoop"]["data"] = data
        notices = renew(job)
    assert other.renewed == []
    assert len(name_node.renewed) == 1
    assert any(f"hdfs://{address} is not renewed: your Hadoop configuration does not name" in each for each in notices)


def test_a_follower_without_a_hadoop_configuration_renews_nothing(
    cluster: Cluster, prepare: Callable[..., PreparedJob], name_node: FakeNameNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = prepare()
    submit(job)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (notice,) = renew(job)
    assert "not renewed: no Hadoop configuration is set" in notice
    assert name_node.renewed == []


def test_settings_of_daemons_and_secrets_stay_at_home() -> None:
    given = {
        "fs.defaultFS": "hdfs://nn",
        "fs.s3a.secret.key": "x",
        "dfs.nameservices": "nn",
        "dfs.namenode.keytab.file": "/etc/x",
        "dfs.datanode.data.dir": "/data",
        "hadoop.security.group.mapping.ldap.bind.password": "x",
        "hadoop.security.authentication": "kerberos",
    }
    found = collect_settings(Configuration.load(None, {}, given=given))
    assert set(found) == {"fs.defaultFS", "dfs.nameservices", "hadoop.security.authentication"}


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[HadoopAccess], None]:
    """Give this process the Secret of a job, as pods have it."""

    def mount(access: HadoopAccess) -> None:
        for key, value in access.encode().items():
            (tmp_path / key).write_bytes(value)

    for module in (executor_container, hadoop_access):
        monkeypatch.setattr(module, "HADOOP", tmp_path)
    return mount


def build_access(settings: Mapping[str, str], *tokens: Token) -> HadoopAccess:
    summary = HadoopSummary(user="ann", settings=settings, file_systems=("",), is_fetched=True)
    return HadoopAccess(summary, TokenCredentials(tokens={each.service: each for each in tokens}))


def test_programs_find_what_hadoop_needs(tmp_path: Path, pod: Callable[[HadoopAccess], None]) -> None:
    assert dict(list_variables()) == {}
    pod(build_access({"fs.defaultFS": "hdfs://nn", "dfs.nameservices": "<nn>"}))
    assert dict(list_variables()) == {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": "ann"}
    found = Configuration.load(tmp_path)
    assert (found.get("fs.defaultFS"), found.get("dfs.nameservices")) == ("hdfs://nn", "<nn>")
    pod(build_access({"fs.defaultFS": "hdfs://nn"}, TOKEN))
    variables = {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")}
    assert dict(list_variables()) == variables


def test_a_pod_fetches_a_file_unless_it_has_changed(tmp_path: Path, pod: Callable[[HadoopAccess], None]) -> None:
    content = b"0123456789"
    with FakeWebHdfs({"/": FakeFile(), "/x": FakeFile(content=content, permission=0o600)}) as hdfs:
        address = hdfs.url.removeprefix("http://")
        settings = {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": address}
        pod(build_access(settings))
        with closing(HdfsFiles(build_access(settings).create_clients())) as files:
            timestamp = files.stat("hdfs:///x").timestamp  # type: ignore[union-attr]
        place = InPlace(address="hdfs://nn:8020/x", timestamp=timestamp)
        item = StagedItem(digest="a" * 64, size=10, name="x", placement=Placement.FILE, in_place=place)
        fetch_in_place(item, tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == content
        with pytest.raises(StorageError, match="hdfs://nn:8020/x was changed after the job was submitted"):
            fetch_in_place(replace(item, size=11), tmp_path / "target")
