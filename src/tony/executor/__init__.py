"""The task executor: starts the user's program in a container, watches it and reports. Standard library only.

    main ─▶ event_loop ─▶ executor ─┬▶ am_connection ─▶ session_protocol (no I/O), lease, reattach_listener
      │                             ├▶ log_serving, tunnel_endpoint, stack_dump: what clients ask for through the AM
      ▼                             └▶ task_run ─┬▶ program_environment, spawn, reaper, spawn_errors
    watchdog: a second process                   ├▶ process_tree, exit_classification
    that ends the program when                   ├▶ output_capture ─▶ log_file, writer_thread, rank_output,
    the executor cannot                          │      decisive_line
                                                 ├▶ metrics_sampler ─▶ gpu_metrics, memory_monitor, progress_listener,
                                                 │      progress_pattern, tensorboard_progress ─▶ tfevents
                                                 ├▶ port_reservation, python_hook_variables, output_exports,
                                                 │      missing_files
                                                 └▶ rendezvous ─▶ rendezvous_store or rendezvous_relay

`task_run` is one task attempt, from the start command to the last report. `rendezvous` is a process that answers on
the task's own port where the framework needs one. `yarn_main` is the same program in a YARN container: it finds its
launch payload and prepares its files before `main` continues.
"""
