"""The application master: the only loop; turns events into actions performed."""
