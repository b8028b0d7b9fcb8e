"""Independent pieces of work, spread over workers, the same however they are split.

`pieces` says what a piece is and has them done; `workers` are processes of this
computer; `cluster` are those of a Ray cluster.
"""

# The environment of a process whose linear algebra takes one thread. The library's own
# threads wait by spinning: on shared processors that doubles the processor time.
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
