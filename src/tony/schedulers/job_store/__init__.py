"""Job directories kept where nodes and clients reach them: written by the AM, read by later AM attempts and clients.

`job_store` is the interface to such a place, `hdfs_job_store` HDFS; the other modules are for every store.
"""
