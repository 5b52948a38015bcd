"""Hadoop on the wire, without a JVM: RPC, security, YARN and what is needed of HDFS.

A package of its own that knows nothing of jobs, roles and tasks: of the rest it uses only errors, units and dataclass.

    configuration/       *-site.xml as Hadoop reads it; where its daemons are
    wire/                messages: `proto` is the codec, the others are Hadoop's messages and methods
    ipc/                 one connection: frames, negotiation, concurrent calls, errors by Java's class names
    sasl/, tokens/       DIGEST-MD5 and Kerberos; credentials files, tokens and which of them is meant
    logins, services     the user of calls, and clients of the daemons
    failover             several daemons of which one is active
    yarn/                clients of ResourceManager and NodeManagers
    hdfs/                WebHDFS, the growing log, the NameNode's RPC
    logs/                aggregated logs, and the pages of NodeManagers
    ids, address, text   ids as text; host and port; foreign text that may be shown
"""
