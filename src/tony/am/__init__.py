"""The application master: one loop that turns events into actions, writes the event log and performs the actions.

`main` is the process on any scheduler; `container_main` creates the job directory in a container first. `master` is the
loop: event, log, state machine (`tony.core`), actions. An action is performed only after its cause is durable
(`durability_barrier`).

Executors connect through `executor_connections`; `executor_instructions` builds the launch context of their containers
and the commands that start their programs. After a failover `recovery` restores the state from the event log of the
previous AM attempt and carries out user requests made while no AM answered; `reattach_caller` calls executors that do
not know the new address.

Clients get reports (`subscribers`), output (`log_relay`), metrics (`metrics_store`), stack traces (`stack_relay`) and
connections to ports of tasks (`tunnel_broker`). `web_listener` listens for the cluster's proxy; `page_process` starts
the process that serves the pages where the web packages are installed, else there is only the `fallback_page`.
"""
