"""What NodeManagers want to see before they listen to an application's master.

The ResourceManager gives one with the first container on each node, and again when its key rolls. Nodes are known by
their ids, as in a container: the token's own service is written otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from tony.hadoop.tokens.credentials import from_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire.application_master import NodeToken
from tony.hadoop.wire.yarn_records import NodeId


class NodeTokens:
    """The newest token of each node. Kept by the master's client, read by those of the nodes."""

    def __init__(self) -> None:
        self._tokens: dict[NodeId, HadoopToken] = {}

    def put(self, tokens: Iterable[NodeToken]) -> None:
        """Keeps what an answer of the ResourceManager brought."""
        for each in tokens:
            if each.node is not None and each.token is not None:
                self._tokens[each.node] = from_message(each.token)

    def get(self, node: NodeId) -> HadoopToken | None:
        """The newest token of a node."""
        return self._tokens.get(node)

    def __len__(self) -> int:
        return len(self._tokens)
