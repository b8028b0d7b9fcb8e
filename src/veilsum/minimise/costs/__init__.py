"""Costs: what is minimised, and what of it is masked."""
