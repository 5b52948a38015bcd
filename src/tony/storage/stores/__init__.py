"""File systems of histories behind one interface: local, and all that fsspec knows."""
