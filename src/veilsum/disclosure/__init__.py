"""Prices of a question: released bits, bits that tables hold, influence of one row."""
