"""Hadoop YARN: the client submits over Hadoop's own RPC; the application master and the executors run in containers.

`client/` checks, uploads and submits, and explains an application's status afterwards. `allocation/` is the AM's half:
`allocator` is what the AM holds, `session` its registration with the ResourceManager. `launch_payload` travels to a
container; `shipping/launch/` has the scripts that find a Python there. The job directory is in HDFS (`job_store`).
"""
