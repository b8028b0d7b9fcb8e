"""Numbers about laws of rows that only tests look at."""

from math import exp, log


def row_entropy(law):
    """Return the Shannon entropy of one row, in bits."""
    pairs = zip(law.chances, law.cells, strict=True)
    return -sum(exp(log(n) + a) * a for a, n in pairs) / log(2.0)
