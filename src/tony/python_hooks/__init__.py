"""Folders for the PYTHONPATH of user programs. tony itself imports nothing of `hooks`.

library/tony/    `import tony` for a program whose Python has no `tony`: `progress` and `checkpoint` only. Any other
                 package of that name takes precedence.
hooks/           `sitecustomize`, with which Python dumps its stack traces on request; it leaves no other trace, and the
                 interpreter's own `sitecustomize` runs as if this one did not exist. `tony_jax_cluster` lets JAX find
                 its processes, `tony_collective_trace` writes what PyTorch has recorded.

They import nothing of tony but each other. All of it runs on Python 3.7 and newer; the two files that any Python may
load, `library/tony/__init__.py` and the hook, run on every version. They are unpacked here, or in a zip of sources.
"""
