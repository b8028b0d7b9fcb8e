"""Models: what a row contributes, and what follows from sums."""
