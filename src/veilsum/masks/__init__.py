"""Masks: laws, discrete Gaussian sampling, fixed-point grids and keyed streams."""
