"""Ways to carry out iterations, all agents at once: numpy, numba, jax."""
