"""Independent pieces of work, spread over workers, the same however they are split.

`pieces` says what a piece is and has them done; `workers` are processes of this
computer; `cluster` are those of a Ray cluster.
"""
