"""HTTP requests to the web servers of daemons."""

from __future__ import annotations

import http.client

from tony.errors import InfraError

#: Timeout in seconds of one response; a starting daemon may accept a connection without responding.
_TIMEOUT_SECONDS = 5.0


def send_request(
    address: str, method: str, path: str, body: str | None = None, timeout: float = _TIMEOUT_SECONDS
) -> bytes:
    """Send one request to a daemon's web server.

    Args:
        body: JSON.
        timeout: timeout in seconds.

    Raises:
        InfraError: it refused, or is not reachable.
    """
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise InfraError(f"{method} http://{address}{path}: {error}") from error
    finally:
        connection.close()
    if answer.status not in (200, 202):  # done, or accepted
        text = content.decode(errors="replace")[:500]
        raise InfraError(f"{method} http://{address}{path}: {answer.status} {answer.reason}: {text}")
    return content
