"""Hadoop's protocols without a JVM: RPC, security, YARN, and the parts of HDFS that tony needs.

The package knows nothing of jobs, roles and tasks. From the rest of tony it uses only modules at its top.

    configuration/       `*-site.xml` as Hadoop reads it; the addresses of its daemons
    wire/                messages: `proto` is the codec, the others are Hadoop's messages and methods
    ipc/                 one connection: frames, negotiation, concurrent calls
    sasl/, tokens/       DIGEST-MD5 and Kerberos; credentials files, and the token to use for a daemon
    authentication       the user and credentials of calls
    errors               errors of every call, by Java's class names
    failover             calls the active one of several daemons
    yarn/                clients of ResourceManager and NodeManagers
    hdfs/                WebHDFS, the append-only log, the NameNode's RPC
    logs/                aggregated logs, and the pages of NodeManagers
    ids                  ids as text
"""
