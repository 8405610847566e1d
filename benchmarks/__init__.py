"""Speed of the trainer beside a plain loop and beside JAX, on the same work. Run it with ``python -m benchmarks`` or ``make bench``."""
