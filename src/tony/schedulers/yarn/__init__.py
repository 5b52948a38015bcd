"""Hadoop YARN: the client submits over Hadoop's own RPC; the application master and the executors run in containers.

In the client (`client/`): `submitter` refuses requests that the cluster can never satisfy (`feasibility`,
`queue_limits`, `unsatisfiable_constraints`), uploads and submits. `cluster_discovery` finds the cluster,
`launch_contexts` builds the request to YARN (`dry_run` prints it). `artifacts` lists the files for HDFS: staged objects
and the archives of `schedulers/shipping`; `cache_upload` stores each once by digest, `cache_eviction` removes old ones.

After submission: `schedulers/job_store` fetches the job directory, `container_logs` the output; `application_status`,
`capacity`, `web_links` and `unrecorded_applications` explain an application's status.

In the cluster: `launch_payload` travels to a container; `shipping/launch/` has the scripts that find a Python there.
`allocation/allocator` is the AM's connection to the ResourceManager: `outstanding_requests`, `container_table`,
`exit_reasons`, `node_blacklist`. `schedulers/job_store` keeps the job directory and its event log in HDFS, and fetches
the older logs after a failover; `container_recovery` finds the containers.
"""
