"""The scheduler `kubernetes`: an AM in a Job of one pod, and a pod for each task. See docs/decisions/0023.

settings, capabilities       `[scheduler.kubernetes]`; what it can do
submitter                    the client's half
cluster_clients              clients of the API server, from the settings
object_upload                staged files as ConfigMaps, by their digests
port_forward                 connections from the client to a port of a pod
manifests                    the objects of a job
launch_payload, containers   what pods find within them
allocator, pod_table         the AM's half: its pods
pod_ends                     why a pod ended, or cannot start
"""
