"""A real Kubernetes of one or more nodes on one machine, in namespaces of its own: for trying out, and for tests.

etcd, the API server, the controller manager, the scheduler, and a kubelet with containerd run below one process,
`node`, which is the first one of a process namespace: when it ends, so do they and all containers. Mounts and addresses
are in namespaces as well. Only control groups and one port on loopback belong to the machine.

`cluster` starts, inspects and stops it. Before the start `software` builds the programs, and `cluster_files` writes the
configuration.
"""
