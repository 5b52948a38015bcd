"""HTTP POST client for webhooks, with or without TLS.

A request can be cancelled at any time: it runs in a daemon thread, which does not outlive the process. Redirects are
not followed: the body may be signed, and is meant for that one server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tony.address import format_host
from tony.linux.thread_pools import start_in_thread

if TYPE_CHECKING:
    from http.client import HTTPConnection

#: Status codes below 500 that may be retried.
_RETRYABLE = frozenset({408, 425, 429})


class WebhookRejectedError(Exception):
    """The request was not accepted.

    Attributes:
        is_retryable: it may be accepted later.
    """

    def __init__(self, text: str, *, is_retryable: bool) -> None:
        super().__init__(text)
        self.is_retryable = is_retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """The address of a webhook.

    Attributes:
        path: with the query; it may be a secret, so it appears in no message.
    """

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def from_address(cls, address: str) -> WebhookTarget:
        """Parse an address that was checked when the job was submitted."""
        parts = urlsplit(address)
        secure = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure=secure, host=parts.hostname or "", port=parts.port or (443 if secure else 80), path=path)

    def __str__(self) -> str:
        name = format_host(self.host)
        usual = 443 if self.secure else 80
        return f"{'https' if self.secure else 'http'}://{name}{'' if self.port == usual else f':{self.port}'}"


async def post(target: WebhookTarget, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    """Send a request once.

    Args:
        timeout: seconds for the whole exchange.

    Raises:
        WebhookRejectedError: for whatever reason.
    """
    from http.client import BadStatusLine, HTTPException, RemoteDisconnected  # late: most jobs have no webhook

    opened: list[HTTPConnection] = []
    is_given_up = False

    def exchange() -> int:
        connection = _create_connection(target, timeout)
        opened.append(connection)
        with contextlib.closing(connection):
            connection.connect()
            if is_given_up:
                return 0
            connection.request("POST", target.path, body, {**headers, "Connection": "close"})
            return connection.getresponse().status

    try:
        async with asyncio.timeout(timeout):
            status = await start_in_thread(exchange, daemon=True)
    except TimeoutError:
        raise WebhookRejectedError(f"no answer within {timeout:.3g} s", is_retryable=True) from None
    except RemoteDisconnected:
        raise WebhookRejectedError("the connection was closed without an answer", is_retryable=True) from None
    except HTTPException as error:
        is_cut_off = isinstance(error, BadStatusLine) and not str(error.args[0]).endswith("\n")
        raise WebhookRejectedError("its answer is not HTTP", is_retryable=is_cut_off) from None
    except OSError as error:
        raise _build_refusal(error) from None
    except RuntimeError as error:  # no thread can be started
        raise WebhookRejectedError(str(error), is_retryable=True) from None
    finally:
        is_given_up = True
        for connection in opened:
            if connection.sock:  # its thread is still waiting
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
    if 300 <= status < 400:
        raise WebhookRejectedError(f"it redirects ({status}), which is not followed", is_retryable=False)
    if not 200 <= status < 300:
        raise WebhookRejectedError(
            f"it answered with status {status}", is_retryable=status in _RETRYABLE or status >= 500
        )


def _create_connection(target: WebhookTarget, timeout: float) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection  # late: only jobs with a webhook send anything

    create = HTTPSConnection if target.secure else HTTPConnection  # one with TLS reads the machine's certificates
    return create(target.host, target.port, timeout=timeout)


def _build_refusal(error: OSError) -> WebhookRejectedError:
    import ssl  # late: an interpreter may lack it

    # A TLS error that is not the end of the connection would occur again.
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        detail = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
        trust = "its certificate is not trusted" if getattr(error, "verify_message", "") else "the TLS handshake failed"
        return WebhookRejectedError(f"{trust}: {str(detail).replace('_', ' ').lower()}", is_retryable=False)
    return WebhookRejectedError(error.strerror or str(error) or type(error).__name__, is_retryable=True)
