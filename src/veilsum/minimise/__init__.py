"""Minimisation of a sum of private costs: costs, domains, methods.

Use it to describe the costs, the domain and the method of `veilsum.solve`, to run one
problem under many settings (`sweep`), or to simulate millions of parties (`large`).

Example:
    >>> import veilsum as vs
    >>> from veilsum.minimise import Box, Cost
    >>> costs = [Cost.squared_distance([point]) for point in (1.0, 2.0, 6.0, 3.0)]
    >>> run = vs.solve(costs, domain=Box(-9, 9, dim=1), sigma=1.0, seed=0)
    >>> [round(float(x), 3) for x in run.minimiser]
    [3.0]

Modules, from the lowest layer to the highest:
    costs         private costs, domains, and the part of a cost that is masked
    methods       Phase II: one file per method, with its schedule and its certificate
    engines       iterations of all simulated parties: numpy, numba, JAX, MPI
    rounds        Phase II of one party, as the protocol runs it
    question      the recipe: one sum that all parties solve, or mask and then iterate
    arrays        the driver that holds all parties as rows of one array
    solve         one simulated run, used by `gradient_fit`, `sweeps` and `paper`
    quadratic     quadratic programs by one sum
    executions    many repetitions of Phase I, for statistics
    large_graphs, ranks  graphs of very many parties, on one computer or ranks of MPI

Phase II never imports private costs or masks. Only the command line imports
`large_graphs`, `ranks` and `engines.mpi`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
