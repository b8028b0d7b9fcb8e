"""Iterations of a method by one loop, which engines and machines are held against."""

from veilsum.minimise.methods.base import mix_method_messages


def iterations_of_method(method, weights, cost, start):
    """Yield all parties' states: the first, then one after each iteration, for ever."""
    state = method.begin(start, cost)
    while True:
        yield state
        done = state.iteration
        while state.iteration == done:
            told = method.outgoing(state)
            mixed = mix_method_messages(weights, method.parts(state), told)
            state = method.advance(state, mixed, cost)
