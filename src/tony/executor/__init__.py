"""The guest in the container: starts the user's program, watches it, reports. Imports nothing but the standard library.

main ──▶ executor ──▶ link       one connection to the application master, made anew when it breaks; the lease
                 │      └▶ dialog    what was said and what follows from it; no I/O
                 └──▶ trial      one try: ports, start, end, verdict
                        ├▶ launch     fork and exec
                        ├▶ family     everything a program has started: found, signalled, ended
                        ├▶ output     log files, the last lines
                        ├▶ memory     what it uses, or the kernel's word that it was too much
                        └▶ environment
watchdog     a second, tiny process that ends the program when the executor cannot any more
"""
