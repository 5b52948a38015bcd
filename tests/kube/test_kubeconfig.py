"""A kubeconfig file means what it means to kubectl; what is wrong in it is named with its place."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tony.kube.credentials import LoginCredentials
from tony.kube.errors import CredentialsError
from tony.kube.kubeconfig import KubeconfigError, find_kubeconfig_files, find_proxy, load_cluster_access
from tony.kube.service_account import load_service_account

MINIMAL = """
    current-context: lab
    clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443/"}}]
    users: [{name: u, user: {USER}}]
    contexts: [{name: lab, context: {cluster: c, user: u}}]
"""


def write(folder: Path, text: str, name: str = "config") -> Path:
    file = folder / name
    file.write_text(dedent(text))
    return file


def load_login(folder: Path, user: str) -> LoginCredentials:
    return load_cluster_access([write(folder, MINIMAL.replace("USER", user))]).credentials.load()


def test_the_current_context(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    file = write(
        tmp_path,
        """
        current-context: lab
        clusters:
        - name: c
          cluster: {server: "https://k8s:6443", certificate-authority: ca.pem, tls-server-name: api, proxy-url: "http://p:1"}
        users: [{name: u, user: {token: secret, as: ann}}]
        contexts: [{name: lab, context: {cluster: c, user: u, namespace: ml}}]
        """,
    )
    access = load_cluster_access([file])
    assert (access.server, access.namespace, access.authority) == ("https://k8s:6443", "ml", "CA")
    assert (access.tls_name, access.proxy, access.user) == ("api", "http://p:1", "ann")
    assert access.credentials.load().authorization == "Bearer secret"
    assert load_cluster_access([file], namespace="other").namespace == "other"
    assert "secret" not in repr(access)


def test_files_are_merged_and_the_first_one_wins(tmp_path: Path) -> None:
    first = write(tmp_path, "contexts: [{name: lab, context: {cluster: c, user: u, namespace: first}}]", "a")
    second = write(tmp_path, MINIMAL.replace("USER", "token: t"), "b")
    access = load_cluster_access([tmp_path / "missing", first, second])
    assert (access.namespace, access.server) == ("first", "https://10.0.0.1:6443")


def test_the_files_are_those_of_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_kubeconfig_files({}) == (tmp_path / ".kube/config",)
    assert find_kubeconfig_files({"KUBECONFIG": "/a:~/b"}) == (Path("/a"), tmp_path / "b")


def test_a_token_file_goes_before_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert load_login(tmp_path, "tokenFile: token, token: old").authorization == "Bearer from-file"


def test_the_end_of_a_line_is_no_part_of_a_token(tmp_path: Path) -> None:
    """As in YAML with `token: |`."""
    assert load_login(tmp_path, 'token: "secret\\n"').authorization == "Bearer secret"


def test_certificates_may_be_in_the_file_itself(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    (tmp_path / "key.pem").write_text("KEY")
    login = load_login(tmp_path, f"client-certificate-data: {data}, client-key: key.pem")
    assert (login.certificate, login.key) == ("PEM", "KEY")


def test_a_program_may_print_the_token(tmp_path: Path) -> None:
    """It is run once for all clients, while its credentials are valid; KUBERNETES_EXEC_INFO says what it is for."""
    script = write(
        tmp_path,
        """
        import json, os, pathlib
        runs = pathlib.Path("RUNS"); runs.write_text((runs.read_text() if runs.exists() else "") + "x")
        asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        status = {"token": os.environ["T"] + asked["spec"]["cluster"]["server"], "expirationTimestamp": "WHEN"}
        print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
        """.replace("RUNS", str(tmp_path / "runs")),
        "plugin.py",
    )
    user = (
        f"exec: {{apiVersion: client.authentication.k8s.io/v1, command: {sys.executable}, args: [{script}, WHEN], "
        "env: [{name: T, value: 'for '}], provideClusterInfo: true}"
    )
    for when, runs in (("2999-01-01T00:00:00Z", "x"), ("2001-01-01T00:00:00Z", "xx")):
        (tmp_path / "runs").unlink(missing_ok=True)
        script.write_text(script.read_text().replace("WHEN", when).replace("2999-01-01T00:00:00Z", when))
        config = write(tmp_path, MINIMAL.replace("USER", user.replace("WHEN", f"'{when}'")))
        credentials = load_cluster_access([config]).credentials
        assert load_cluster_access([config]).credentials is credentials
        assert credentials.load().authorization == "Bearer for https://10.0.0.1:6443/"
        credentials.load()
        assert (tmp_path / "runs").read_text() == runs


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("command: ./missing, installHint: apt install it", "missing, .* is not installed: apt install it"),
        ("command: sh, args: ['-c', 'echo no ticket >&2; exit 3']", "sh, .* failed with exit code 3: 'no ticket'"),
        ("command: echo, args: ['{}']", "the answer of the program echo cannot be used"),
    ],
)
def test_a_program_that_fails_is_named(tmp_path: Path, command: str, message: str) -> None:
    user = f"exec: {{apiVersion: client.authentication.k8s.io/v1, {command}}}"
    with pytest.raises(CredentialsError, match=message):
        load_login(tmp_path, user)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config: is not YAML"),
        ("[]", "config: is not a kubeconfig file"),
        ("", "there is no current context"),
        ("current-context: x", r"context = x \(.*config\): there is no such context; known: none"),
        (MINIMAL.replace("https://10.0.0.1:6443/", "10.0.0.1"), "server .*config.: must be the URL of an API server"),
        (MINIMAL.replace("USER", "auth-provider: {name: gcp}"), "auth-provider .*use an exec plug-in"),
        (MINIMAL.replace("USER", "client-key-data: '?'"), "client-key-data .*is not base64"),
        (MINIMAL.replace("USER", "client-key: nowhere"), "client-key .*nowhere cannot be read"),
        (MINIMAL.replace("USER", "exec: {command: x, apiVersion: v0}"), "exec.apiVersion .*must be one of"),
        (MINIMAL.replace("10.0.0.1:6443", "h:99999"), "server .*config.: must be the URL of an API server"),
        (MINIMAL.replace("10.0.0.1:6443", "[::1"), "server .*config.: must be the URL of an API server"),
        (MINIMAL.replace("server:", "insecure-skip-tls-verify: 'false', server:"), "must be true or false"),
        (MINIMAL.replace("USER", 'token: "a\\nb"'), "token .*characters that no header may have"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        load_cluster_access([write(tmp_path, text)])


def test_a_kubeconfig_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"nowhere: there is no such kubeconfig file: set KUBECONFIG"):
        load_cluster_access([tmp_path / "nowhere"])


def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.1,.local")
    assert find_proxy("https://k8s:6443") == "http://proxy:3128"
    for server in ("https://127.0.0.1:6443", "https://[::1]:6443", "https://localhost:6443"):
        assert find_proxy(server) == ""
    assert find_proxy("https://10.0.0.1:6443") == find_proxy("https://a.local") == ""


def test_a_pod_has_a_service_account(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "ml\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = load_service_account(environ, tmp_path)
    assert (access.server, access.namespace, access.authority) == ("https://[fd00::1]:443", "ml", "CA")
    assert access.credentials.load().authorization == "Bearer t"
    with pytest.raises(CredentialsError, match="runs in no pod"):
        load_service_account({}, tmp_path)
    with pytest.raises(CredentialsError, match="the pod has no service account"):
        load_service_account(environ, tmp_path / "nowhere")
