"""Masks: laws, discrete Gaussian sampling, fixed-point grids and keyed streams.

Use it to choose a law of masks for functions that take `Masks`, or to compare laws.

Example:
    >>> from veilsum.masks import Masks
    >>> Masks("lattice", sigma=1.0, grid=40).law
    'lattice'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
