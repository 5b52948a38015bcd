"""The scheduler `kubernetes`."""

from __future__ import annotations

from tony.model.state_directory import Home
from tony.schedulers.client_interface import Scheduler, Submitter
from tony.storage.stores.store_interface import FileStore


class KubernetesScheduler(Scheduler):
    """Creates the client's half. `KubernetesAmContainer` creates the other from the launch payload."""

    name = "kubernetes"

    def create_submitter(self, home: Home) -> Submitter:
        from tony.schedulers.kubernetes.submitter import KubernetesSubmitter

        return KubernetesSubmitter(home)

    def open_histories(self, address: str, home: Home) -> FileStore:
        from tony.schedulers.kubernetes.namespace_store import NamespaceStore

        return NamespaceStore(address, home)
