"""Requests are sent again only where that cannot do anything twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kube.scripted_server import Answer, ScriptedServer
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import BearerTokenFile
from tony.kube.errors import AnswerLostError, KubeApiError, UnreachableError
from tony.kube.resources import CONFIG_MAPS, JOBS, PODS, RULES_REVIEWS

BUSY = Answer(status=429, headers={"Retry-After": "0"}, body={"kind": "Status", "reason": "TooManyRequests"})
LOST = Answer(is_lost=True)
POD = {"metadata": {"name": "a", "uid": "1"}}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer().serve() as found:
        yield found


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[ApiClient]:
    found = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
    yield found
    found.close()


def test_paths_of_objects() -> None:
    assert PODS.build_path("ml", "a", "log") == "/api/v1/namespaces/ml/pods/a/log"
    assert JOBS.build_path("ml") == "/apis/batch/v1/namespaces/ml/jobs"
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews/n%2F1"
    assert RULES_REVIEWS.build_path("ml", "n/1") == path


def test_a_busy_server_is_asked_again_after_the_pause_that_it_wants(server: ScriptedServer, client: ApiClient) -> None:
    server.answers = [BUSY, BUSY, Answer(status=201, body=POD)]
    assert client.create(PODS, POD) == POD
    assert [request.method for request in server.requests] == ["POST"] * 3
    assert server.requests[-1].body == POD


def test_an_object_whose_answer_is_lost_is_not_created_twice(server: ScriptedServer, client: ApiClient) -> None:
    server.answers = [LOST]
    with pytest.raises(AnswerLostError):
        client.create(PODS, POD)
    assert len(server.requests) == 1


@pytest.mark.parametrize("first", [LOST, Answer(status=503), Answer(status=500)])
def test_a_read_is_repeated(server: ScriptedServer, client: ApiClient, first: Answer) -> None:
    server.answers = [first, Answer(body=POD)]
    assert client.get(PODS, "a") == POD


@pytest.mark.parametrize("status", [201, 409])
def test_half_an_answer_is_a_lost_one(server: ScriptedServer, client: ApiClient, status: int) -> None:
    """Without its reason, a refusal cannot be understood."""
    body = {"kind": "Status", "reason": "AlreadyExists"}
    server.answers = [Answer(status=status, body=body, is_cut=True)]
    with pytest.raises(AnswerLostError):
        client.create(PODS, POD)


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_a_request_that_does_the_same_twice_is_repeated(server: ScriptedServer, client: ApiClient, method: str) -> None:
    server.answers = [LOST, Answer(status=504), Answer(body=POD)]
    if method == "patch":
        client.patch(PODS, "a", POD)
    else:
        client.delete(PODS, "a")
    assert len(server.requests) == 3


@pytest.mark.parametrize("first", [LOST, Answer(status=504)])
def test_an_object_with_a_name_of_its_own_is_created_in_spite_of_lost_answers(
    server: ScriptedServer, client: ApiClient, first: Answer
) -> None:
    existing = Answer(status=409, body={"reason": "AlreadyExists"})
    server.answers = [first, existing, Answer(body=POD)]
    assert client.create_unique(PODS, POD) == POD
    assert [request.method for request in server.requests] == ["POST", "POST", "GET"]


def test_an_object_of_another_client_is_not_taken_for_a_new_one(server: ScriptedServer, client: ApiClient) -> None:
    server.answers = [Answer(status=409, body={"reason": "AlreadyExists"})]
    with pytest.raises(KubeApiError):
        client.create_unique(PODS, POD)


def test_a_refusal_has_the_words_of_the_server(server: ScriptedServer, client: ApiClient) -> None:
    text = 'pods is forbidden: User "ann" cannot create\nresource \x1b[1m"pods"'
    server.answers = [Answer(status=403, body={"kind": "Status", "reason": "Forbidden", "message": text})]
    with pytest.raises(
        KubeApiError, match=r'^create pods/a: pods is forbidden: User "ann" cannot create resource'
    ) as caught:
        client.create(PODS, POD)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert "\x1b" not in str(caught.value)


def test_pages_of_a_list_are_joined_and_begin_again_when_they_expire(server: ScriptedServer, client: ApiClient) -> None:
    page = Answer(body={"metadata": {"continue": "t", "resourceVersion": "7"}, "items": [POD]})
    last = Answer(body={"metadata": {"resourceVersion": "9"}, "items": [POD]})
    server.answers = [page, Answer(status=410, body={"reason": "Expired"}), page, last]
    found = client.list(PODS, labels={"job": "j"})
    assert (len(found.items), found.version) == (2, "9")
    assert ["continue=t" in request.target for request in server.requests] == [False, True, False, True]
    assert all("labelSelector=job%3Dj" in request.target for request in server.requests)


def test_a_dry_run_is_no_creation(server: ScriptedServer, client: ApiClient) -> None:
    server.answers = [Answer(body=POD)]
    client.create(CONFIG_MAPS, POD, dry_run=True)
    assert server.requests[0].target == "/api/v1/namespaces/ml/configmaps?dryRun=All&fieldValidation=Strict"


def test_a_missing_object_is_deleted_already(server: ScriptedServer, client: ApiClient) -> None:
    server.answers = [Answer(status=404, body={"reason": "NotFound"})]
    client.delete(PODS, "a", grace_seconds=1, uid="u")
    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 1, "preconditions": {"uid": "u"}}
    assert server.requests[0].body == options


def test_a_token_that_was_replaced_is_read_again(server: ScriptedServer, tmp_path: Path) -> None:
    """The kubelet replaces the token of a pod; the server may refuse the old one before a minute has passed."""
    file = tmp_path / "token"
    file.write_text("old")
    client = ApiClient(ClusterAccess(server=server.url, credentials=BearerTokenFile(file), origin="context lab"))
    server.answer = lambda request: Answer(status=200 if request.headers["Authorization"] == "Bearer new" else 401)
    with pytest.raises(KubeApiError, match="context lab"):
        client.get(PODS, "a")
    file.write_text("new\n")
    assert client.get(PODS, "a") == {}
    client.close()


def test_an_unreachable_server_is_named() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        unused_port = sock.getsockname()[1]
    access = ClusterAccess(server=f"https://127.0.0.1:{unused_port}", origin="context lab of ~/.kube/config")
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{unused_port} .context lab .* refuses connections"):
        ApiClient(access, give_up_seconds=0).get(PODS, "a")


def test_a_proxy_is_named() -> None:
    """As in variables of most programs it may be given without a scheme."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{unused.getsockname()[1]}"
        access = ClusterAccess(server="http://k8s:6443", origin="context lab", proxy=proxy)
        with closing(ApiClient(access, give_up_seconds=0)) as client:
            words = rf"the proxy {proxy} of .*k8s:6443 .*context lab.* refuses connections"
            with pytest.raises(UnreachableError, match=words):
                client.get(PODS, "a")


@pytest.mark.parametrize("proxy", ["socks5://u:secret@p:1", "u:secret@p:x", ":3128", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_an_error_at_once(proxy: str) -> None:
    access = ClusterAccess(server="http://k8s:6443", origin="context lab", proxy=proxy)
    words = r"cannot be used: only http://HOST:PORT can .*HTTPS_PROXY"
    with (
        closing(ApiClient(access, give_up_seconds=60)) as client,
        pytest.raises(UnreachableError, match=words) as caught,
    ):
        client.get(PODS, "a")
    assert caught.value.is_permanent
    assert "secret" not in str(caught.value)
