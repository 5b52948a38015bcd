"""Signatures are those of Amazon's own examples, of the page that `request_signature` names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tony.storage.s3.request_signature import EMPTY_DIGEST, S3Credentials, sign_request

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
NOW = datetime(2013, 5, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("method", "path", "headers", "digest", "expected"),
    [
        (
            "GET",
            "/test.txt",
            {"Range": "bytes=0-9"},
            EMPTY_DIGEST,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/?max-keys=2&prefix=J",
            {},
            EMPTY_DIGEST,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_signatures_of_amazon_s_examples(
    method: str, path: str, headers: dict[str, str], digest: str, expected: str
) -> None:
    credentials = S3Credentials.from_variables(VARIABLES)
    url = f"https://examplebucket.s3.amazonaws.com{path}"
    signed = sign_request(credentials, method, url, headers=headers, payload_digest=digest, now=NOW)
    assert signed["authorization"].endswith(f"Signature={expected}")


def test_a_session_token_is_sent_and_signed() -> None:
    credentials = S3Credentials.from_variables({**VARIABLES, "AWS_SESSION_TOKEN": "t"})
    signed = sign_request(credentials, "GET", "https://b/k", headers={}, payload_digest=EMPTY_DIGEST, now=NOW)
    assert signed["x-amz-security-token"] == "t"
    assert ";x-amz-security-token," in signed["authorization"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "us-east-1"), ({"AWS_DEFAULT_REGION": "a"}, "a"), ({"AWS_DEFAULT_REGION": "a", "AWS_REGION": "b"}, "b")],
)
def test_regions(variables: dict[str, str], expected: str) -> None:
    assert S3Credentials.from_variables({**VARIABLES, **variables}).region == expected


def test_missing_credentials_are_named() -> None:
    with pytest.raises(ValueError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY not set"):
        S3Credentials.from_variables({"AWS_SECRET_ACCESS_KEY": ""})


def test_the_end_of_a_line_is_no_part_of_a_key() -> None:
    """As in Secrets that were made of files."""
    variables = {"AWS_ACCESS_KEY_ID": "id\n", "AWS_SECRET_ACCESS_KEY": "secret\n"}
    found = S3Credentials.from_variables({**variables, "OTHER": "\n\x01"})
    assert (found.access_key, found.secret_key) == ("id", "secret")
    with pytest.raises(ValueError, match="AWS_SESSION_TOKEN have characters") as caught:
        S3Credentials.from_variables({**variables, "AWS_SESSION_TOKEN": "hidden\nx"})
    assert "hidden" not in str(caught.value)


def test_secrets_are_not_printed() -> None:
    text = repr(S3Credentials.from_variables({**VARIABLES, "AWS_SESSION_TOKEN": "temporary"}))
    assert "wJalr" not in text
    assert "temporary" not in text
