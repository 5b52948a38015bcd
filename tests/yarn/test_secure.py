"""On a cluster with Kerberos: tickets for the client, delegation tokens for everything in the cluster."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import pytest

import tony
from tests.change_detection import CLUSTER
from tests.e2e.lab import read_files
from tests.hadoop import kerberos
from tests.hadoop.kerberos import Kdc
from tests.hadoop.url_tokens import from_url_string
from tests.mini_clusters import Clusters
from tests.yarn.lab import ENDED, one_user, until, user
from tests.yarn.secure import OTHER, Keys, SecureCluster, SecureLab, as_if, secure_options
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import InvalidTokenError, LoginError
from tony.hadoop.hdfs.namenode_rpc import PROTOCOL, create_name_node
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.tokens import read_hdfs_owner, to_url_string, write_file
from tony.hadoop.wire.proto import ProtoMessage, required
from tony.hadoop.wire.rpc import Method, Token
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.storage.hdfs.delegation_tokens import POLICY, collect_job_credentials

pytestmark = [
    pytest.mark.skipif(bool(kerberos.missing()), reason=kerberos.missing()),
    pytest.mark.on_change(*CLUSTER, "client", "executor", "rpc", "storage"),
]


class _CancelRequest(ProtoMessage):
    token: Token = required(1, Token)


class _CancelResponse(ProtoMessage):
    pass


_CANCEL: Final = Method(
    protocol=PROTOCOL, name="cancelDelegationToken", request=_CancelRequest, response=_CancelResponse
)
#: Uses HDFS in three ways that know nothing of each other, with nothing but the token file of its container.
PROGRAM = """
import asyncio, json, os, subprocess, sys, time, urllib.request
from pathlib import Path
sys.path.append(os.environ["SRC"])
from tony.hadoop.configuration import Configuration
from tony.hadoop.tokens import read_file
from tony.hadoop.tokens import to_url_string
from tony.schedulers.yarn.cluster_clients import ClusterClients

out, conf = Path(os.environ["OUT"]), os.environ["HADOOP_CONF_DIR"]
file = Path(os.environ["HADOOP_TOKEN_FILE_LOCATION"])
credentials = read_file(file)
(token,) = credentials.tokens.values()
(out / "brought").write_bytes(Path("brought").read_bytes())
(out / "token").touch(mode=0o600)
(out / "token").write_text(to_url_string(token))
(out / "seen").write_text(json.dumps([token.kind, sorted(credentials.secrets), oct(file.stat().st_mode & 0o777)]))

def ask(method, url, data=None):
    return urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=60).read()

path = os.environ["FOLDER"] + "/web"
url = f"https://{os.environ['WEB']}/webhdfs/v1{path}?delegation={to_url_string(token)}&noredirect=true&op="
ask("PUT", json.loads(ask("PUT", url + "CREATE"))["Location"], b"over HTTP")
(out / "web").write_bytes(ask("GET", json.loads(ask("GET", url + "OPEN"))["Location"]))

closed = ClusterClients.from_configuration(Configuration.load(conf, {}), os.environ).recover_lease(path)
(out / "rpc").write_text(str(closed))

java = [os.environ["JAVA_HOME"] + "/bin/java", "-Xmx96m", "-cp", f"{conf}:{os.environ['JARS']}/*"]
shell = [*java, "org.apache.hadoop.fs.FsShell", "-cat", path]
done = subprocess.run(shell, capture_output=True, text=True)
(out / "java").write_text(done.stdout or done.stderr)
print("done with HDFS", flush=True)
while not (out / "go").exists():
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    try:
        kdc.start()
        yield kdc
    finally:
        kdc.stop()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def secure(clusters: Clusters, kdc: Kdc, keys: Keys) -> SecureCluster:
    """The cluster, shared by this file's tests."""
    wanted = secure_options(kdc, keys.certificate)
    found = clusters.with_options(wanted, lambda home: SecureCluster(home, kdc, keys))
    return cast(SecureCluster, found)


@pytest.fixture
def lab(secure: SecureCluster) -> Iterator[SecureLab]:
    with one_user(lambda folder: SecureLab(folder, secure)) as made:
        yield made


@pytest.fixture
def with_ticket(secure: SecureCluster) -> Iterator[ClusterClients]:
    """The cluster as a client in this process sees it, which has a ticket."""
    with as_if(secure.client_environment(user())):
        yield as_cluster(secure)


def as_cluster(secure: SecureCluster) -> ClusterClients:
    """As a client sees it that has no token file."""
    return ClusterClients.from_configuration(Configuration.load(secure.conf, {}), {})


def test_a_job(lab: SecureLab) -> None:
    """Submitted, run, followed, read elsewhere; its program uses HDFS; no token shows; YARN ends the job's token."""
    folder = f"/user/{user()}/{lab.root.name}"
    places = {
        "SRC": str(Path(tony.__file__).parents[1]),
        "FOLDER": folder,
        "WEB": lab.cluster.state.address("nn.web"),
        "SSL_CERT_FILE": lab.env["SSL_CERT_FILE"],
        "JARS": lab.cluster.state.jars,
    }
    brought = f"hdfs://{folder}/brought"  # nodes fetch it with the job's token
    with as_if(lab.secure.client_environment(user())), as_cluster(lab.secure).web_files() as files:
        files.create(f"{folder}/brought", b"from HDFS", permission=0o600)
    job = lab.detach(lab.roles(PROGRAM, '[roles.worker]\nmemory = "512m"', head=f'files = ["{brought}"]', **places))
    until(lambda: lab.wrote("java") or lab.status(job)["state"] in ENDED, "the program used HDFS")
    assert lab.wrote("java") == "over HTTP", lab.status(job)
    assert (lab.wrote("web"), lab.wrote("brought")) == ("over HTTP", "from HDFS")
    assert lab.wrote("rpc") == "True"
    assert lab.wrote("seen") == '["HDFS_DELEGATION_TOKEN", [], "0o600"]'
    token = from_url_string(lab.wrote("token"))
    assert read_hdfs_owner(token)
    _prove_hidden(lab, job, token)

    # Another machine, where nothing is known of the job, and one without a ticket.
    there = lab.elsewhere("there")
    assert there.status(job)["state"] == "running"
    assert "done with HDFS" in there.tony("logs", job).stdout
    refused = there.tony("status", job, env={"KRB5CCNAME": "FILE:/nowhere", "TONY_HOME": str(lab.root / "no-ticket")})
    assert refused.returncode != 0
    assert "Get a ticket with kinit" in refused.stderr

    # Its master is killed: the next one has tokens as well, for the log and for the nodes.
    os.kill(lab.master_of(job), signal.SIGKILL)
    until(lambda: there.status(job)["attempt"] == 2 and there.status(job)["state"] == "running", "another continues")

    (lab.out / "go").touch()
    status = lab.wait(job, "succeeded")
    assert status["session"] == 1
    record, whole = f"/user/{user()}/.tony/jobs/{job}", {"summary.json", "events.1.closed.jsonl", "events.2.jsonl"}
    until(lambda: whole <= set(lab.listed(record)), "the record is whole")
    again = lab.elsewhere("again")
    assert again.status(job)["state"] == "succeeded"
    assert "wants a Kerberos login for its pages" in again.tony("logs", job).stderr
    with as_if(lab.secure.client_environment(user())):
        _wait_cancelled(places["WEB"], token)


def test_another_name(lab: SecureLab) -> None:
    """Who submits is who has the ticket, whatever the account is called."""
    lab.env |= lab.secure.client_environment(OTHER)
    done = lab.submit(lab.job('command = "echo hello"\n[roles.worker]'))
    assert done.returncode == 0, done.stderr
    job = lab.only_job()
    with as_if(lab.secure.client_environment(OTHER)), as_cluster(lab.secure).web_files() as files:
        (record,) = (each for each in files.list(f"/user/{OTHER}/.tony/jobs") if each.name == job)
        assert (record.owner, record.permission) == (OTHER, 0o700)
    there = lab.elsewhere("there")
    there.env |= lab.secure.client_environment(OTHER)
    assert there.status(job)["state"] == "succeeded"


def _prove_hidden(lab: SecureLab, job: str, token: Token) -> None:
    """Neither logs nor variables nor arguments have a token, and files only where no other user reads them."""
    password = token.password
    forms = (password, base64.b64encode(password), base64.urlsafe_b64encode(password), to_url_string(token).encode())
    looked = 0
    for folder in (*lab.folders(job).values(), *lab.logs(job).values()):
        for path, content in read_files(folder):
            looked += 1
            if any(form in content for form in forms):
                assert path.name == "container_tokens", path
                assert path.stat().st_mode & 0o077 == 0, path
    for pid in lab.processes(job):
        seen = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        assert not any(form in seen for form in forms), pid
    for path, content in read_files(lab.home):
        assert not any(form in content for form in forms), path
    assert looked > 4


def _wait_cancelled(web: str, token: Token) -> None:
    with WebHdfs([f"https://{web}"], WebLogin(token=to_url_string(token))) as files:

        def refused() -> bool:
            try:
                files.find("/")
            except InvalidTokenError:
                return True
            return False

        until(refused, "YARN cancels the token of a job that has ended")


def test_a_token_that_has_ended_is_replaced(with_ticket: ClusterClients) -> None:
    """Who follows a job for longer than a token lives notices nothing."""
    with with_ticket.web_files() as files:
        assert files.find("/user") is not None
        first = with_ticket.file_login(None)
        asyncio.run(_cancel(with_ticket, from_url_string(first.token)))
        assert files.find("/user") is not None
        assert with_ticket.file_login(None) != first


def test_without_a_ticket(with_ticket: ClusterClients, lab: SecureLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file is enough for HDFS; its token goes to the job as it is; who has neither is told what to do."""
    settings = with_ticket.configuration
    credentials = asyncio.run(collect_job_credentials(settings, with_ticket.logins, ("",)))
    (token,) = credentials.tokens.values()
    write_file(lab.root / "tokens", credentials)
    monkeypatch.setenv("KRB5CCNAME", "FILE:/nowhere")
    brought = ClusterClients.from_configuration(settings, {"HADOOP_TOKEN_FILE_LOCATION": str(lab.root / "tokens")})
    assert brought.user == user()
    assert asyncio.run(collect_job_credentials(settings, brought.logins, ("",))).tokens == {token.service: token}
    path = f"/user/{user()}/{lab.root.name}"
    with brought.web_files() as files:
        files.create(path, b"one")
        brought.recover_lease(path)
        files.append(path, b"two")
        assert files.read(path) == b"onetwo"
        files.delete(path)
    with (
        pytest.raises(LoginError, match="Get a ticket with kinit"),
        ClusterClients.from_configuration(settings, {}).web_files() as files,
    ):
        files.find("/")
    web = brought.configuration.get("dfs.namenode.http-address")
    with pytest.raises(LoginError, match="401"), WebHdfs([f"https://{web}"], WebLogin(user=user())) as files:
        files.find("/")


async def _cancel(cluster: ClusterClients, token: Token) -> None:
    async with create_name_node(cluster.configuration, cluster.logins, cluster.files, policy=POLICY) as client:
        await client._proxy.call(_CANCEL, _CancelRequest(token=token))
