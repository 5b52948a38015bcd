"""Requests to a registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from tests.support.fake_registry import FakeRegistry
from tony import http_requests
from tony.oci.docker_credentials import RegistryLogin
from tony.oci.file_image import build_file_image
from tony.oci.image_names import Repository
from tony.oci.registry_client import RegistryClient, RegistryError
from tony.retry import Backoff

CONTENT = b"content"
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
ANN = RegistryLogin(user="ann", password="secret", origin="config.json")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(http_requests, "_PAUSES", Backoff(first=0, most=0))
    with FakeRegistry() as found:
        yield found


def connect(registry: FakeRegistry, login: RegistryLogin = ANN) -> RegistryClient:
    return RegistryClient(Repository(registry.host_and_port, "team/files"), login, lambda: None)


def push(client: RegistryClient) -> None:
    client.push_blob(DIGEST, len(CONTENT), lambda: [CONTENT[:3], CONTENT[3:]])


def test_an_image_is_pushed_and_found(registry: FakeRegistry) -> None:
    client = connect(registry)
    assert not client.has_blob(DIGEST)
    push(client)
    assert registry.blobs == {DIGEST: CONTENT}
    assert client.has_blob(DIGEST)
    image = build_file_image(DIGEST, len(CONTENT))
    for config in image.configs:
        client.push_config(config)
    for manifest in image.manifests:
        client.push_document(manifest.digest, manifest)
    assert client.find_image("tag") == ""
    client.push_document("tag", image.index)
    assert client.find_image("tag") == image.index.digest


@pytest.mark.parametrize(
    ("auth", "login"), [("basic", ANN), ("token", ANN), ("token", RegistryLogin(identity_token="refresh"))]
)
def test_credentials(registry: FakeRegistry, auth: str, login: RegistryLogin) -> None:
    registry.auth = auth
    client = connect(registry, login)
    push(client)
    assert client.has_blob(DIGEST)
    registry.tokens.clear()  # they have expired
    assert client.has_blob(DIGEST)


@pytest.mark.parametrize("auth", ["basic", "token"])
@pytest.mark.parametrize(
    "login",
    [RegistryLogin(origin="there is no config.json"), RegistryLogin(user="ann", password="old", origin="config.json")],
)
def test_a_user_who_may_not_push(registry: FakeRegistry, auth: str, login: RegistryLogin) -> None:
    registry.auth = auth
    with pytest.raises(
        RegistryError, match=r"UNAUTHORIZED: .*\(HTTP 401\)\. Log in with `docker login 127.* config.json"
    ):
        push(connect(registry, login))
    assert not registry.blobs


def test_the_words_of_the_registry(registry: FakeRegistry) -> None:
    registry.faults = lambda method, _: 403 if method == "PUT" else None
    with pytest.raises(RegistryError, match=r"refuses to store a blob in team/files: DENIED: requested access.* 403"):
        push(connect(registry))


def test_what_may_pass_is_tried_again(registry: FakeRegistry) -> None:
    """A whole upload: the registry has forgotten the first one."""
    left = [503, 503, 429]
    registry.faults = lambda method, _: left.pop() if method == "PUT" and left else None
    push(connect(registry))
    assert registry.blobs == {DIGEST: CONTENT}
    assert len([method for method, _ in registry.requests if method == "POST"]) == 4
    registry.faults = lambda _method, _path: 502
    with pytest.raises(RegistryError, match=r"HTTP 502"):
        push(connect(registry))


def test_an_interrupted_submission_tries_no_more(registry: FakeRegistry) -> None:
    def stop() -> None:
        raise InterruptedError

    client = RegistryClient(Repository(registry.host_and_port, "a"), ANN, stop)
    registry.faults = lambda _method, _path: 503
    with pytest.raises(InterruptedError):
        client.has_blob(DIGEST)
    assert len(registry.requests) == 1


def test_a_registry_that_is_not_there(registry: FakeRegistry) -> None:
    registry.server_close()
    with pytest.raises(RegistryError, match=r"the registry 127\.0\.0\.1:\d+ cannot be reached: .*refused"):
        push(connect(registry))


def test_a_blob_that_is_stored_elsewhere(registry: FakeRegistry) -> None:
    """The answer is a redirect, which is not followed: its target must not see the credentials."""
    registry.faults = lambda method, _: 307 if method == "HEAD" else None
    assert connect(registry).has_blob(DIGEST)


def test_other_machines_are_reached_by_tls_alone(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    client = RegistryClient(Repository("registry.invalid", "a"), ANN, lambda: None)
    urls: list[str] = []
    monkeypatch.setattr(client, "_send", lambda _method, url, _body, _headers: urls.append(url))
    with pytest.raises(AttributeError):  # there is no answer
        client.has_blob(DIGEST)
    assert urls == [f"https://registry.invalid/v2/a/blobs/{DIGEST}"]
    for url in ("http://other.invalid/token", "file:///etc/passwd", ""):
        with pytest.raises(RegistryError, match="only https:// is used"):
            client._check_transport(url)
