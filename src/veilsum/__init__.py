"""veilsum: minimise a sum of private costs peer to peer.

Public names are listed in `__all__` and loaded when they are first used, so that
`import veilsum` costs nothing and heavy libraries stay out of short commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilsum.core.bases import Affine, Polynomial, Quadratic
    from veilsum.core.connectivity import (
        algebraic_connectivity,
        components,
        minimum_vertex_cut,
        vertex_connectivity,
    )
    from veilsum.core.costs import Cost
    from veilsum.core.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
    from veilsum.core.effective import EffectiveCost
    from veilsum.core.gaussians import DegenerateGaussian
    from veilsum.core.masking import GaussianMasks, NoMasks
    from veilsum.core.methods.dgd import Dgd
    from veilsum.core.mixing import mixing_rate, mixing_weights
    from veilsum.core.remainders import SquaredNorm
    from veilsum.core.topology import Topology
    from veilsum.errors import (
        InvalidGraphError,
        InvalidInputError,
        InvalidPairError,
        InvalidScenarioError,
        MissingExtraError,
        NumericalError,
        OutputError,
        SecretError,
        VeilsumError,
    )
    from veilsum.files.graphs import read_topology, topology_from
    from veilsum.files.scenarios import read_scenario
    from veilsum.jobs.paper import reproduce
    from veilsum.jobs.scenario_run import run_scenario
    from veilsum.privacy.divergence import attacker_success, kl_divergence
    from veilsum.privacy.guarantee import Guarantee, guarantee
    from veilsum.privacy.view import View
    from veilsum.scenario import Scenario, Settings
    from veilsum.sim.executions import Executions, simulate
    from veilsum.sim.vectorised import Run, solve

__version__ = "0.1.0"

_HOME = {
    "core.bases": ("Affine", "Polynomial", "Quadratic"),
    "core.connectivity": (
        *("algebraic_connectivity", "components"),
        *("minimum_vertex_cut", "vertex_connectivity"),
    ),
    "core.costs": ("Cost",),
    "core.domains": ("Ball", "Box", "HalfSpaces", "Simplex", "WholeSpace"),
    "core.effective": ("EffectiveCost",),
    "core.gaussians": ("DegenerateGaussian",),
    "core.masking": ("GaussianMasks", "NoMasks"),
    "core.methods.dgd": ("Dgd",),
    "core.mixing": ("mixing_rate", "mixing_weights"),
    "core.remainders": ("SquaredNorm",),
    "core.topology": ("Topology",),
    "errors": (
        *("InvalidGraphError", "InvalidInputError", "InvalidPairError"),
        *("InvalidScenarioError", "MissingExtraError", "NumericalError"),
        *("OutputError", "SecretError", "VeilsumError"),
    ),
    "files.graphs": ("read_topology", "topology_from"),
    "files.scenarios": ("read_scenario",),
    "jobs.paper": ("reproduce",),
    "jobs.scenario_run": ("run_scenario",),
    "privacy.divergence": ("attacker_success", "kl_divergence"),
    "privacy.guarantee": ("Guarantee", "guarantee"),
    "privacy.view": ("View",),
    "scenario": ("Scenario", "Settings"),
    "sim.executions": ("Executions", "simulate"),
    "sim.vectorised": ("Run", "solve"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Affine",
    "Ball",
    "Box",
    "Cost",
    "DegenerateGaussian",
    "Dgd",
    "EffectiveCost",
    "Executions",
    "GaussianMasks",
    "Guarantee",
    "HalfSpaces",
    "InvalidGraphError",
    "InvalidInputError",
    "InvalidPairError",
    "InvalidScenarioError",
    "MissingExtraError",
    "NoMasks",
    "NumericalError",
    "OutputError",
    "Polynomial",
    "Quadratic",
    "Run",
    "Scenario",
    "SecretError",
    "Settings",
    "Simplex",
    "SquaredNorm",
    "Topology",
    "VeilsumError",
    "View",
    "WholeSpace",
    "algebraic_connectivity",
    "attacker_success",
    "components",
    "guarantee",
    "kl_divergence",
    "minimum_vertex_cut",
    "mixing_rate",
    "mixing_weights",
    "read_scenario",
    "read_topology",
    "reproduce",
    "run_scenario",
    "simulate",
    "solve",
    "topology_from",
    "vertex_connectivity",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'veilsum' has no attribute {name!r}")
    value = getattr(import_module(f"veilsum.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
