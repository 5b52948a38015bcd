"""The tokens with which the AM authenticates to NodeManagers.

The ResourceManager issues one with the first container on each node, and again when its key rolls. They are stored by
node id, as in a container; the service inside the token is written differently.
"""

from __future__ import annotations

from collections.abc import Iterable

from tony.hadoop.tokens.credentials import from_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire.application_master import NodeToken
from tony.hadoop.wire.yarn_records import NodeId


class NodeTokens:
    """The newest token of each node, written by `MasterClient` and read by `NodeClients`."""

    def __init__(self) -> None:
        self._tokens: dict[NodeId, HadoopToken] = {}

    def put(self, tokens: Iterable[NodeToken]) -> None:
        """Store the tokens of a ResourceManager response."""
        for each in tokens:
            if each.node is not None and each.token is not None:
                self._tokens[each.node] = from_message(each.token)

    def get(self, node: NodeId) -> HadoopToken | None:
        """Return the newest token of a node, if there is one."""
        return self._tokens.get(node)

    def __len__(self) -> int:
        return len(self._tokens)
