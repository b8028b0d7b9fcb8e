"""Minimise a sum of private costs: the paper's subject.

    costs         private costs, domains, and the part of a cost that is masked
    methods       Phase II: one file per method, with its schedule and its certificate
    engines       iterations of all simulated parties: numpy, numba, JAX, MPI
    rounds        Phase II of one party, as the protocol runs it
    question      the recipe: one sum that everybody solves, or masks and then rounds
    arrays        the driver that holds all parties as rows of one array
    solve         one simulated run; `gradient_fit`, `sweep` and `paper` use it
    quadratic     quadratic programs by one sum
    executions    Phase I many times over, for statistics
    large, ranks  graphs of very many parties, on one computer and on ranks of MPI

Phase II never imports private costs or masks. Nothing but the command line imports
`large`, `ranks` and `engines.mpi`.
"""
