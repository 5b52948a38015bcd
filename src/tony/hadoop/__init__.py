"""Hadoop on the wire, without a JVM: RPC, security, YARN and what is needed of HDFS.

A package of its own that knows nothing of jobs, roles and tasks: of the rest it uses only errors, units and dataclass.
"""
