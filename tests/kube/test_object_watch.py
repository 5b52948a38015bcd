"""A watch misses no change, however its stream ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tony.kube.api_client import ApiClient, Object
from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import KubeError
from tony.kube.object_watch import Change, ObjectChange, ObjectWatch
from tony.kube.resources import PODS

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def pod(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> Object:
    return {"type": kind, "object": pod(name, version)}


def listing(version: int, *names: str) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": [pod(name, version) for name in names]})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer().serve() as found:
        yield found


Respond = Callable[[Request, ObjectWatch], Answer]


def script(lists: list[Answer], streams: list[Answer]) -> Respond:
    """Return a server that gives one answer after the other; the last ones again and again."""

    def answer(request: Request, watch: ObjectWatch) -> Answer:
        answers = streams if "watch=1" in request.target else lists
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return answer


def follow(server: ScriptedServer, answer: Respond, expected: int = 1) -> list[tuple[str, str]]:
    """Return the first changes that a watch reports, as kind and name."""
    changes: list[tuple[str, str]] = []

    def on_change(change: ObjectChange) -> None:
        changes.append((change.change.value, change.content["metadata"]["name"]))
        if len(changes) == expected:
            watch.stop()

    client = ApiClient(ClusterAccess(server=server.url), give_up_seconds=0)
    watch = ObjectWatch(client, PODS, {"job": "j"}, on_change, lambda _: None)
    server.answer = lambda request: answer(request, watch)
    watch.run()
    client.close()
    return changes


def test_changes_follow_the_list(server: ScriptedServer) -> None:
    stream = Answer(lines=(event("ADDED", "b", 6), event("BOOKMARK", "", 9), event("DELETED", "a", 11)))
    found = follow(server, script([listing(5, "a")], [stream]), 3)
    assert found == [("present", "a"), ("present", "b"), ("deleted", "a")]
    assert "resourceVersion=5" in server.requests[1].target


def test_a_stream_that_ends_continues_where_it_was(server: ScriptedServer) -> None:
    streams = [
        Answer(lines=(event("ADDED", "b", 6), event("BOOKMARK", "", 9))),
        Answer(lines=(event("ADDED", "c", 12),)),
    ]
    assert follow(server, script([listing(5)], streams), 2) == [("present", "b"), ("present", "c")]
    assert "resourceVersion=9" in server.requests[2].target


@pytest.mark.parametrize(
    "expired",
    [Answer(status=410, body={"reason": "Expired"}), Answer(lines=(GONE,)), Answer(lines=())],
    ids=["status", "event", "empty"],
)
def test_an_expired_version_leads_to_a_new_list(server: ScriptedServer, expired: Answer) -> None:
    lists = [listing(5, "a", "b"), listing(20, "b", "c")]
    found = follow(server, script(lists, [expired, Answer(lines=(event("ADDED", "d", 21),))]), 5)
    assert found[:2] == [("present", "a"), ("present", "b")]
    assert sorted(found[2:]) == [("deleted", "a"), ("present", "b"), ("present", "c")]


def test_an_object_that_came_and_went_unseen_is_reported_as_deleted(server: ScriptedServer) -> None:
    """Its creator knows of it, but there was no stream: the pod of a task would be waited for without end."""
    lists = script([listing(5), listing(9)], [Answer(lines=(GONE,))])

    def answer(request: Request, watch: ObjectWatch) -> Answer:
        if "watch=1" in request.target:
            watch.expect("b")
        return lists(request, watch)

    assert follow(server, answer) == [("deleted", "b")]


def test_an_object_that_is_younger_than_the_list_is_not_missing(server: ScriptedServer) -> None:
    lists = script([listing(5)], [Answer(lines=(event("ADDED", "b", 6),))])

    def answer(request: Request, watch: ObjectWatch) -> Answer:
        if "watch=1" not in request.target:
            watch.expect("b")
        return lists(request, watch)

    assert follow(server, answer) == [("present", "b")]


def test_it_lists_again_when_it_is_asked_to(server: ScriptedServer) -> None:
    """A list and the answer to a creation have crossed: no stream reports that the object came and went."""
    ended = threading.Event()

    def stream(watch: ObjectWatch) -> Iterator[Object]:
        yield event("ADDED", "a", 6)
        watch.expect("b")
        watch.list_again()
        ended.wait(60)

    def answer(request: Request, watch: ObjectWatch) -> Answer:
        return Answer(lines=stream(watch)) if "watch=1" in request.target else listing(5, "a")

    found = follow(server, answer, 3)
    ended.set()
    assert ("deleted", "b") in found


def test_a_server_that_stays_away_stays_in_trouble(server: ScriptedServer) -> None:
    """After the first list, too: nothing says that it answers before it does."""
    answers = [listing(5), Answer(is_lost=True), Answer(is_lost=True), Answer(status=503)]
    server.answer = lambda _: answers.pop(0) if answers else Answer(lines=(event("ADDED", "b", 6),))
    seen: list[bool] = []
    client = ApiClient(ClusterAccess(server=server.url), give_up_seconds=0)
    watch = ObjectWatch(
        client, PODS, {"job": "j"}, lambda _: watch.stop(), lambda error: seen.append(error is not None)
    )
    watch.run()
    client.close()
    assert seen == [False, True, True, True, False]


def test_trouble_is_reported_until_it_ends(server: ScriptedServer) -> None:
    lists = [Answer(is_lost=True), Answer(status=503, body={"message": "starting"}), listing(5, "a")]
    server.answer = lambda request: lists.pop(0) if lists else Answer(lines=(event("ADDED", "b", 6),))
    seen: list[KubeError | None] = []
    done = threading.Event()
    on_change: Callable[[ObjectChange], None] = lambda change: done.set() if change.change is Change.PRESENT else None  # noqa: E731
    client = ApiClient(ClusterAccess(server=server.url), give_up_seconds=0)
    watch = ObjectWatch(client, PODS, {"job": "j"}, on_change, seen.append)
    thread = threading.Thread(target=watch.run)
    thread.start()
    assert done.wait(60)
    watch.stop()
    thread.join()
    client.close()
    assert [error is None for error in seen[:3]] == [False, False, True]
    assert "starting" in str(seen[1])
