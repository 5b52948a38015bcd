"""What user programs find beside themselves: folders for their PYTHONPATH. Nothing of ours imports `hooks`.

library/tony/    `import tony`, in a program whose Python has no `tony`: `progress` and `checkpoint`, and nothing more.
                 Any other package of that name goes first.
hooks/           `sitecustomize`, which has Python show where it stands when it is asked; it leaves no other trace, and
                 the interpreter's own `sitecustomize` is run as if there were none of ours. `tony_jax_cluster` lets JAX
                 find its processes.

They import nothing of ours but each other. Any Python from 3.7 on understands all of it, and any Python at all the two
files that it may come across unasked: `library/tony/__init__.py` and the hook. They lie unpacked here, or in a zip of
sources.
"""
