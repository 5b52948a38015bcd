"""Signatures of requests to S3: AWS Signature Version 4.

Sources: "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk" of the Amazon S3
API Reference, with the examples that the tests use.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, unquote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_DIGEST = hashlib.sha256().hexdigest()
_CREDENTIAL_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Credentials:
    """Who signs requests.

    Attributes:
        session_token: of temporary credentials; else empty.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    region: str

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> S3Credentials:
        """Read the variables that tools of AWS use.

        Raises:
            ValueError: one is missing, or cannot be part of a header.
        """
        variables = {name: value.strip() for name, value in variables.items() if name in _CREDENTIAL_VARIABLES}
        if broken := [name for name, value in variables.items() if not (value.isascii() and value.isprintable())]:
            raise ValueError(f"{' and '.join(broken)} have characters that no header may have")
        if missing := [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not variables.get(name)]:
            raise ValueError(f"{' and '.join(missing)} not set")
        return cls(
            access_key=variables["AWS_ACCESS_KEY_ID"],
            secret_key=variables["AWS_SECRET_ACCESS_KEY"],
            session_token=variables.get("AWS_SESSION_TOKEN", ""),
            region=variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "us-east-1",
        )


def sign_request(
    credentials: S3Credentials,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    payload_digest: str,
    now: datetime,
) -> dict[str, str]:
    """Return the headers of a request with its signature.

    Args:
        url: with its path quoted; a query has its parameters in order of their names, with values quoted.
        headers: all are signed.
        payload_digest: SHA-256 of the body, which S3 compares with what arrives.
    """
    parts = urlsplit(url)
    time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {name.lower(): value for name, value in headers.items()}
    sent |= {"host": parts.netloc, "x-amz-content-sha256": payload_digest, "x-amz-date": time}
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(sent))
    lines = [f"{name}:{sent[name].strip()}" for name in sorted(sent)]
    request = "\n".join([method, quote(unquote(parts.path)), parts.query, *lines, "", names, payload_digest])
    scope = f"{time[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, time, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _sign(key, part)
    signature = _sign(key, text).hex()
    value = f"{_ALGORITHM} Credential={credentials.access_key}/{scope},SignedHeaders={names},Signature={signature}"
    return {**sent, "authorization": value}


def _sign(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
