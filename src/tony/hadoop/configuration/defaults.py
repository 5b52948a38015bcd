"""Hadoop's defaults for the keys read here; renamed keys.

Source: core-default.xml, hdfs-default.xml and yarn-default.xml of Hadoop 3.4.2, and the deprecation tables of its
classes Configuration and HdfsConfiguration; checked against what these classes return.
"""

from __future__ import annotations

from typing import Final

_CORE: Final = {
    "fs.defaultFS": "file:///",
    "hadoop.rpc.protection": "authentication",
    "hadoop.security.authentication": "simple",
    "hadoop.security.token.service.use_ip": "true",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "ipc.client.connect.timeout": "20000",
    "ipc.client.fallback-to-simple-auth-allowed": "false",
    "ipc.client.rpc-timeout.ms": "120000",
    "ipc.maximum.response.length": "134217728",
    "ipc.ping.interval": "60000",
}
_HDFS: Final = {
    "dfs.http.policy": "HTTP_ONLY",
    "dfs.namenode.delegation.token.always-use": "false",
    "dfs.namenode.http-address": "0.0.0.0:9870",
    "dfs.namenode.https-address": "0.0.0.0:9871",
}
_YARN: Final = {
    "yarn.acl.enable": "false",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.http.policy": "HTTP_ONLY",
    "yarn.log-aggregation-enable": "false",
    "yarn.log-aggregation.file-formats": "TFile",
    "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
    "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.nodemanager.webapp.address": "${yarn.nodemanager.hostname}:8042",
    "yarn.nodemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.address": "${yarn.resourcemanager.hostname}:8032",
    "yarn.resourcemanager.connect.max-wait.ms": "900000",
    "yarn.resourcemanager.connect.retry-interval.ms": "30000",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.scheduler.address": "${yarn.resourcemanager.hostname}:8030",
    "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
    "yarn.resourcemanager.webapp.https.address": "${yarn.resourcemanager.hostname}:8090",
    "yarn.timeline-service.enabled": "false",
}

#: Key -> (Hadoop's default, unexpanded; the file in Hadoop's jars that sets it).
DEFAULTS: Final = {
    key: (value, file)
    for file, table in (("core-default.xml", _CORE), ("hdfs-default.xml", _HDFS), ("yarn-default.xml", _YARN))
    for key, value in table.items()
}

#: Old name -> what it is called now. A file that has the old name sets the new one.
RENAMED: Final = {
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.http.address": "dfs.namenode.http-address",
    "dfs.https.address": "dfs.namenode.https-address",
    "fs.default.name": "fs.defaultFS",
}
