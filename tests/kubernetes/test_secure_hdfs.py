"""Jobs on a real Kubernetes that use a real HDFS with Kerberos: for data, for large files, and for their history."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import shutil
import signal
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import read_files, until
from tests.framework_envs import DEBIAN_PYTHON, has_torch
from tests.hadoop import kerberos
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.test_first_job import MACHINE
from tests.mini_clusters import why_not
from tests.scenarios.test_examples import run_twice
from tests.support.secure_hdfs import SecureHdfs, run_secure_hdfs
from tony.hadoop.tokens import from_bytes, to_url_string
from tony.hadoop.wire.rpc import Token
from tony.kube.resources import CONFIG_MAPS, SECRETS
from tony.mini.kubernetes.software import PYTHON_IMAGE
from tony.schedulers.kubernetes.shared_objects import MAX_STAGED_BYTES

pytestmark = [
    pytest.mark.skipif(bool(kerberos.missing()), reason=kerberos.missing()),
    pytest.mark.skipif(bool(why_not()), reason=str(why_not())),
    pytest.mark.on_change(*KUBERNETES, "hadoop", "storage"),
    pytest.mark.slow,
]
#: A token lives so long, in seconds.
LIFETIME = 20
#: Writes and reads a file over HTTP with nothing but the token, until that works after the token's own lifetime.
PROGRAM = """
import base64, json, os, time, urllib.error, urllib.request
until = time.monotonic() + 1.2 * float(os.environ["LIFETIME"])
data = open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb").read()
token = base64.urlsafe_b64encode(data[7 + data[6]:-1]).decode().rstrip("=")
out = os.environ["OUT"] + "/" + os.environ["NAME"]

def request(method, url, body=None):
    return urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=60).read()

def build_url(path, operation):
    query = f"delegation={token}&noredirect=true&overwrite=true&op={operation}"
    return f"http://{os.environ['WEB']}/webhdfs/v1{path}?{query}"

def write_and_read(path, content):
    request("PUT", json.loads(request("PUT", build_url(path, "CREATE")))["Location"], content)
    return request("GET", json.loads(request("GET", build_url(path, "OPEN")))["Location"]).decode()

while True:
    is_late = time.monotonic() > until
    try:
        read = write_and_read("/user/ann/" + os.environ["NAME"], b"late" if is_late else b"early")
    except urllib.error.HTTPError as error:  # renewed late: the machine is busy
        print(error.read(), flush=True)
    else:
        if is_late and os.path.exists(os.environ["OUT"] + "/gate"):
            break
    time.sleep(0.2)
files = {each: oct(os.stat(f"{os.environ['HADOOP_CONF_DIR']}/{each}").st_mode) for each in ("tokens", "core-site.xml")}
found = {"read": read, "files": files, "own": os.path.exists("data") and open("data").read()}
found["large"] = os.stat("large.bin").st_size
found["kerberos"] = [each for each in os.environ if "KRB5" in each] + [each for each in os.listdir("/tony")]
open(out, "w").write(json.dumps(found))
print("written", flush=True)
"""


@pytest.fixture
def hdfs(lab: KubernetesLab) -> Iterator[SecureHdfs]:
    """HDFS at an address of the node, and a user with a ticket whose commands run in the network of the node."""
    address = lab.enter_node()
    settings = {"dfs.namenode.delegation.token.renew-interval": str(LIFETIME * 1000)}
    with run_secure_hdfs(lab.root, address, lab.prefix, ["ann"], settings) as found:
        lab.env |= found.client_environment("ann")
        yield found


@pytest.mark.timeout(600)
def test_tokens_are_renewed_while_jobs_run(lab: KubernetesLab, hdfs: SecureHdfs) -> None:
    """By the client that follows a job, or by its AM with a keytab; they are cancelled afterwards, and never shown.

    A large file is sent to HDFS once for both jobs. One has its history there, too, and loses its AM.
    """
    hdfs.write("ann", "/user/ann/data", "from HDFS")
    _create_keytab_secret(lab, hdfs)
    large = lab.root / "large.bin"
    large.write_bytes(os.urandom(MAX_STAGED_BYTES))
    log = hdfs.find_log("nn")
    job = _write_job(lab, hdfs, "followed", f'files = ["{hdfs.uri}/user/ann/data", "{large}"]\n', "")
    following = lab.follow("submit", job, *lab.options)
    until(lambda: "/user/ann/tony/kubernetes/cache" in log.read_text(), "the large file is sent")
    until(lambda: [each for each in lab.jobs() if lab.is_released(each)], "the first job is submitted")
    history = f'history = "{hdfs.uri}/user/ann/tony"\n'
    detached = lab.detach(_write_job(lab, hdfs, "detached", f'files = ["{large}"]\n', history + _use_keytab(lab)))
    lab.wait(detached, "running")
    tokens = _read_tokens(lab)
    assert len(tokens) == 2
    os.kill(lab.master_of(detached), signal.SIGKILL)
    (lab.out / "gate").touch()

    assert lab.wait_ended(detached) == "succeeded"
    output, errors = following.communicate(timeout=120)
    assert following.returncode == 0, output + errors
    for each, own in (("followed", "from HDFS"), ("detached", False)):
        found = json.loads(lab.wrote(each))
        assert (found["read"], found["own"]) == ("late", own)
        assert found["files"]["tokens"] == "0o100440"
        assert found["large"] == MAX_STAGED_BYTES
        assert not [each for each in found["kerberos"] if "KRB5" in each or each == "keytab"]
    sent = [line for line in log.read_text().splitlines() if "cmd=create" in line and "/kubernetes/cache/" in line]
    assert len(sent) == 1
    assert "/events.1.closed.jsonl" in log.read_text()
    assert "cmd=renewDelegationToken" in log.read_text()
    until(lambda: log.read_text().count("cmd=cancelDelegationToken") == 2, "the tokens of both jobs are cancelled")
    _prove_hidden(lab, tokens)
    _prove_history(lab, hdfs, detached)
    lab.wait(detached)  # its history is here, too, when HDFS is gone


def _prove_history(lab: KubernetesLab, hdfs: SecureHdfs, job: str) -> None:
    """A job's history is in HDFS, and nothing of it in ConfigMaps; other machines find it by the Job."""
    names = [each["metadata"]["name"] for each in lab.client.list(CONFIG_MAPS).items]
    assert not [each for each in names if each.startswith(job)]
    other = lab.elsewhere("other")
    other.prefix = lab.prefix
    other.env |= hdfs.client_environment("ann")
    other.kubeconfig.write_text(lab.kubeconfig.read_text())
    status = other.status(job)
    assert (status["state"], status["attempt"]) == ("succeeded", 2)
    assert len(other.list_started_programs(job)) == len(other.events_of(job, "granted")) == 1
    assert "written" in other.tony("logs", job, "worker:0").stdout


def _write_job(lab: KubernetesLab, hdfs: SecureHdfs, name: str, head: str, settings: str) -> Path:
    text = f"""{head}
[scheduler.kubernetes]
staging = "{hdfs.uri}/user/ann/tony"
{settings}
[roles.worker]
"""
    values: dict[str, str] = {"NAME": name, "WEB": hdfs.web, "LIFETIME": str(LIFETIME)}
    lab.file("x.py", PROGRAM)
    head = f'command = "python3 x.py"\nsource = "{lab.root}/project"\n'
    return lab.job(head + text, None, f"{name}.toml", **values)


def _create_keytab_secret(lab: KubernetesLab, hdfs: SecureHdfs) -> None:
    files = {"keytab": hdfs.kdc.keytab("renewer/k8s"), "krb5.conf": Path(hdfs.kdc.environment["KRB5_CONFIG"])}
    data = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "renewer"}, "data": data}
    lab.client.create(SECRETS, body)


def _use_keytab(lab: KubernetesLab) -> str:
    """Return the settings with which the AM has the keytab; the image lacks the libraries of Kerberos."""
    folder = lab.out / "libraries"
    folder.mkdir()
    ctypes.CDLL("libgssapi_krb5.so.2")
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split()[-1])
        if any(word in path.name for word in ("krb5", "k5crypto", "com_err", "keyutils")):
            shutil.copy(path, folder / f"{path.name.partition('.so')[0]}.so.{_find_version(path.name)}")
    return f"""token_renewer = "renewer"
[[scheduler.kubernetes.am_template.spec.containers]]
name = "tony"
env = [{{ name = "LD_LIBRARY_PATH", value = "{folder}" }}]
"""


def _find_version(library: str) -> str:
    """Return the number in the name by which other libraries load one: `2` of `libx.so.2.2`."""
    return library.partition(".so.")[2].partition(".")[0]


def _read_tokens(lab: KubernetesLab) -> list[Token]:
    """Return the tokens in the Secrets of the namespace."""
    return [
        token
        for each in lab.client.list(SECRETS).items
        if "tokens" in (each.get("data") or {})
        for token in from_bytes(base64.b64decode(each["data"]["tokens"])).tokens.values()
    ]


def _prove_hidden(lab: KubernetesLab, tokens: list[Token]) -> None:
    """Tokens are in Secrets only, while their job runs: not in ConfigMaps, nor in files of the client."""
    assert _read_tokens(lab) == []
    texts = [json.dumps(lab.client.list(CONFIG_MAPS).items).encode()]
    texts += [content for _, content in read_files(lab.home)]
    for token in tokens:
        forms = (token.password, base64.b64encode(token.password), to_url_string(token).encode())
        assert not any(form in text for form in forms for text in texts)


#: Example, how its processes say from where they continue, and its checkpoints.
EXAMPLES = {
    "jax": ("process {}: continues from step 25", ["step-00000025", "step-00000050"], ["--param", "steps=50"]),
    "digits": (
        "{}:0: continues from step 20",
        ["step-00000020", "step-00000040", "step-00000060"],
        ["--param", "steps=60", "--set", "roles.worker.instances=1"],
    ),
    "pytorch-ddp": (
        "rank {}: continues after epoch 1",
        ["step-00000001", "step-00000002", "step-00000003"],
        ["--param", "epochs=3", "--set", f"python={DEBIAN_PYTHON}"],
    ),
}


@pytest.mark.long  # that they continue from a claim: tests/scenarios/test_examples.py; PyTorch: test_first_job.py
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_continues_from_a_checkpoint_in_hdfs(lab: KubernetesLab, hdfs: SecureHdfs, name: str) -> None:
    """Two processes train together, with the job's token and nothing but the standard library."""
    if name == "pytorch-ddp" and not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    sentence, checkpoints, options = EXAMPLES[name]
    place = f"webhdfs://{hdfs.web}/user/ann/{name}"
    packages = Path(sysconfig.get_path("purelib"))
    lab.write_site(lab.out.parent, packages)
    if name == "pytorch-ddp":
        with Path(lab.env["XDG_CONFIG_HOME"], "tony", "tony.toml").open("w") as site:
            site.write(MACHINE)
    else:
        options = [*options, "--set", f"env.PYTHONPATH={packages}"]
    options += ["--set", f'scheduler.kubernetes.file_systems=["{hdfs.uri}"]']
    options += ["--set", f"scheduler.kubernetes.image={PYTHON_IMAGE}"]
    if name == "digits":
        options += ["--param", f"out={lab.out}"]
    printed = run_twice(lab, name, place, *options)
    for process in ("chief", "worker") if name == "digits" else (0, 1):
        assert sentence.format(process) in printed
    log = hdfs.find_log("nn").read_text()
    renamed = re.findall(rf"ugi=ann.*auth:TOKEN.*cmd=rename.*dst=/user/ann/{name}/(step-\d+)", log)
    assert renamed == checkpoints
