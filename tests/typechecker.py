"""The checker of shapes and types during tests: a float is also a complex number.

A tuple of numbers is as good as a list wherever numpy makes an array of it; its types
say otherwise, because tuples lack a method that they ask for.
"""

import inspect
from dataclasses import is_dataclass
from functools import partial, wraps
from types import FunctionType
from typing import Any, TypeVar, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype
from jaxtyping._decorator import jaxtyped  # its own, also where ours has its place
from numpy.typing import ArrayLike

checker = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=FrozenDict(
            {
                ArrayLike: ArrayLike | tuple,
                ArrayLike | None: ArrayLike | tuple | None,
            }
        ),
    )
)

# One for all calls: what it opens stands on a stack of jaxtyping's.
_SCOPE = jaxtyped("context")


def once_a_call(*, typechecker):
    """Decorate as `jaxtyping.jaxtyped` does: the same checks, each made once a call.

    jaxtyping binds the arguments of every call, checks them before it and again with
    what is returned, and opens a scope for the names of axes even where no array comes
    or goes: a third of the time of a run. Here arguments are checked before the call,
    what is returned after it, in one scope, which only functions of arrays need.
    """
    return partial(_decorated, typechecker)


def _decorated(typechecker, made):
    if inspect.isclass(made):
        if is_dataclass(made) and not hasattr(made.__init__, "__wrapped__"):
            made.__init__ = _decorated(typechecker, made.__init__)
        return made
    if not inspect.isfunction(made) or inspect.isgeneratorfunction(made):
        return jaxtyped(made, typechecker=typechecker)
    hints = _hints(made)
    # A copy: its hints are no longer text, and those that cannot be read say nothing.
    copy = FunctionType(
        made.__code__,
        made.__globals__,
        made.__name__,
        made.__defaults__,
        made.__closure__,
    )
    copy.__kwdefaults__ = made.__kwdefaults__
    copy.__module__, copy.__qualname__ = made.__module__, made.__qualname__
    copy.__annotations__ = hints
    checked, config = typechecker(copy), jaxtyping.config

    if any(_has_arrays(hint) for hint in hints.values()):

        @wraps(made)
        def call(*args, **kwargs):
            __tracebackhide__ = True
            if config.jaxtyping_disable:
                return made(*args, **kwargs)
            with _SCOPE:
                return checked(*args, **kwargs)

    else:

        @wraps(made)
        def call(*args, **kwargs):
            __tracebackhide__ = True
            if config.jaxtyping_disable:
                return made(*args, **kwargs)
            return checked(*args, **kwargs)

    return call


def _hints(made):
    try:
        return get_type_hints(made, include_extras=True)
    except Exception:  # a name for type checkers alone, or of a class yet to come
        return {name: _hint(made, one) for name, one in made.__annotations__.items()}


def _hint(made, written):
    def alone(): ...

    alone.__annotations__ = {"it": written}
    try:
        return get_type_hints(alone, made.__globals__, include_extras=True)["it"]
    except Exception:
        return Any


def _has_arrays(hint):
    if isinstance(hint, TypeVar):
        return any(map(_has_arrays, (hint.__bound__, *hint.__constraints__)))
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_has_arrays, get_args(hint)))
