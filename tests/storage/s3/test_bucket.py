"""Objects in a server with the API of S3: errors in its words, and what happens when it does not answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.support.fake_s3 import FakeS3, FakeS3Object
from tony import http_requests
from tony.errors import StorageError
from tony.storage.s3 import bucket as module
from tony.storage.s3.bucket import MAX_OBJECT_BYTES, S3Bucket, S3Content, S3RefusedError, S3UnavailableError

CONTENT = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with FakeS3().serve() as found:
        yield found


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses, which take no time."""
    found: list[float] = []
    monkeypatch.setattr(http_requests, "time", SimpleNamespace(sleep=found.append))
    return found


def open_bucket(s3: FakeS3, **variables: str) -> S3Bucket:
    return S3Bucket("bucket", {**s3.variables, **variables}, lambda: None)


def test_what_was_stored_is_read(s3: FakeS3) -> None:
    bucket = open_bucket(s3)
    assert bucket.find_object("a/k") is None
    bucket.store_object("a/k", DIGEST, len(CONTENT), lambda: [CONTENT])
    found = bucket.find_object("a/k")
    assert found
    assert found.size == len(CONTENT)
    assert b"".join(bucket.read_object("a/k", len(CONTENT))) == CONTENT


def test_an_object_is_created_once(s3: FakeS3) -> None:
    bucket = open_bucket(s3)
    assert bucket.create_object("a/k", b"one", {"writer": "ann"})
    assert not bucket.create_object("a/k", b"two", {})
    assert bucket.fetch_part("a/k", 0, 100) == S3Content(data=b"one", metadata={"writer": "ann"})
    assert bucket.fetch_part("a/k", 1, 1) == S3Content(data=b"n", metadata={"writer": "ann"})
    bucket.delete_object("a/k")
    assert bucket.fetch_part("a/k", 0, 100) is None


def test_lists_have_several_answers(s3: FakeS3) -> None:
    bucket, s3.page = open_bucket(s3), 2
    s3.objects |= {f"/bucket/a/{number}": FakeS3Object(content=b"x" * number) for number in range(5)}
    s3.objects["/bucket/b"] = FakeS3Object(content=b"")
    assert [(each.key, each.size) for each in bucket.list_objects("a/")] == [(f"a/{n}", n) for n in range(5)]
    before = len(s3.requests)
    assert [each.key for each in bucket.list_objects("a/", 2)] == ["a/0", "a/1"]
    assert len(s3.requests) == before + 1


def test_very_many_objects_are_not_listed(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTED_OBJECTS", 2)
    s3.objects |= {f"/bucket/a/{number}": FakeS3Object(content=b"") for number in range(3)}
    with pytest.raises(StorageError, match="s3://bucket/a/: more than 2 objects"):
        list(open_bucket(s3).list_objects("a/"))


def test_a_part_whose_connection_breaks_is_read_again(s3: FakeS3) -> None:
    s3.objects["/bucket/k"] = FakeS3Object(content=CONTENT)
    s3.cuts = [1000, 0]
    part = open_bucket(s3).fetch_part("k", 256, 2000)
    assert part
    assert part.data == CONTENT[256:2256]


def test_a_bucket_that_does_not_exist_is_no_missing_object(s3: FakeS3) -> None:
    s3.refusals["GET"] = (404, "NoSuchBucket", "The specified bucket does not exist", 1)
    with pytest.raises(S3RefusedError, match="NoSuchBucket"):
        open_bucket(s3).fetch_part("k", 0, 1)


def test_an_object_that_changed_while_it_was_sent_is_refused(s3: FakeS3) -> None:
    with pytest.raises(S3RefusedError, match="XAmzContentSHA256Mismatch"):
        open_bucket(s3).store_object("k", DIGEST, 3, lambda: [b"abc"])
    assert not s3.objects


def test_reading_continues_where_a_connection_broke(s3: FakeS3, pauses: list[float]) -> None:
    s3.objects["/bucket/k"] = FakeS3Object(content=CONTENT)
    s3.cuts = [1000, 0, 300_000]
    assert b"".join(open_bucket(s3).read_object("k", len(CONTENT))) == CONTENT
    assert len(pauses) == 3


def test_reading_ends_if_connections_always_break(s3: FakeS3) -> None:
    s3.objects["/bucket/k"] = FakeS3Object(content=CONTENT)
    s3.cuts = [10] * 6
    with pytest.raises(S3UnavailableError, match=r"s3://bucket/k: .* cannot be reached: the connection ended early"):
        list(open_bucket(s3).read_object("k", len(CONTENT)))


@pytest.mark.parametrize("size", [len(CONTENT) - 1, len(CONTENT) + 1])
def test_an_object_of_another_size_is_not_read(s3: FakeS3, size: int) -> None:
    s3.objects["/bucket/k"] = FakeS3Object(content=CONTENT)
    assert list(open_bucket(s3).read_object("k", size)) == []


def test_an_overloaded_server_is_tried_again(s3: FakeS3, pauses: list[float]) -> None:
    s3.refusals["PUT"] = (503, "SlowDown", "Please reduce your request rate.", 5)
    open_bucket(s3).store_object("k", DIGEST, len(CONTENT), lambda: [CONTENT])
    assert s3.objects["/bucket/k"].content == CONTENT
    assert len(pauses) == 5


def test_a_server_that_stays_overloaded(s3: FakeS3) -> None:
    s3.refusals["GET"] = (503, "SlowDown", "Please reduce your request rate.", 6)
    with pytest.raises(S3UnavailableError, match=r"SlowDown: Please reduce your request rate. \(HTTP 503\)"):
        list(open_bucket(s3).read_object("k", 1))


def test_another_key_is_refused_in_the_words_of_the_server(s3: FakeS3) -> None:
    with pytest.raises(S3RefusedError, match="SignatureDoesNotMatch"):
        list(open_bucket(s3, AWS_SECRET_ACCESS_KEY="x").read_object("k", 1))


def test_a_server_that_is_not_there() -> None:
    variables = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    with pytest.raises(S3UnavailableError, match=r"127\.0\.0\.1:1 cannot be reached: .*refused"):
        S3Bucket("bucket", variables, lambda: None).find_object("k")


def test_too_large_objects_are_refused_before_they_are_sent(s3: FakeS3) -> None:
    with pytest.raises(StorageError, match="at most 5368709120 fit"):
        open_bucket(s3).store_object("k", DIGEST, MAX_OBJECT_BYTES + 1, lambda: [])
    assert not s3.requests


@pytest.mark.parametrize("url", ["ftp://x", "minio:9000", "http://a@b", "http://x?y"])
def test_invalid_endpoints(s3: FakeS3, url: str) -> None:
    with pytest.raises(StorageError, match="is not an http or https URL of a server"):
        open_bucket(s3, AWS_ENDPOINT_URL_S3=url)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("data", "https://data.s3.eu-west-1.amazonaws.com/k"), ("a.b", "https://s3.eu-west-1.amazonaws.com/a.b/k")],
)
def test_without_an_endpoint_it_is_amazon_s(monkeypatch: pytest.MonkeyPatch, name: str, expected: str) -> None:
    seen: list[str] = []

    def sign(_: object, method: str, url: str, **__: object) -> dict[str, str]:
        seen.append(url)
        raise InterruptedError

    monkeypatch.setattr(module, "sign_request", sign)
    variables = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
    with pytest.raises(InterruptedError):
        S3Bucket(name, variables, lambda: None).find_object("k")
    assert seen == [expected]
