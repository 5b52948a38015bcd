"""TensorBoards of ended and running jobs, and the proxy before them."""
