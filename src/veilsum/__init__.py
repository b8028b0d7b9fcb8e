"""veilsum: minimise a sum of private costs peer to peer.

Public names are listed in `__all__` and loaded when they are first used, so that
`import veilsum` costs nothing and heavy libraries stay out of short commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilsum.core.bases import Affine, Polynomial, Quadratic
    from veilsum.core.connectivity import algebraic_connectivity, vertex_connectivity
    from veilsum.core.costs import Cost
    from veilsum.core.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
    from veilsum.core.effective import EffectiveCost
    from veilsum.core.gaussians import DegenerateGaussian
    from veilsum.core.laws import GaussianMasks, LatticeMasks, NoMasks, UniformMasks
    from veilsum.core.methods.dgd import Dgd
    from veilsum.core.methods.one_shot import OneShot
    from veilsum.core.mixing import mixing_rate, mixing_weights
    from veilsum.core.remainders import SquaredNorm
    from veilsum.core.settings import Settings
    from veilsum.core.topology import Topology
    from veilsum.errors import (
        BudgetError,
        InvalidGraphError,
        InvalidInputError,
        InvalidPairError,
        InvalidScenarioError,
        LedgerError,
        LocalProtocolError,
        MissingExtraError,
        NumericalError,
        OutputError,
        PeerProtocolError,
        ProtocolError,
        RangeError,
        SecretError,
        VeilsumError,
    )
    from veilsum.files.graphs import read_topology, topology_from
    from veilsum.files.ledger import Ledger, open_ledger, read_ledger
    from veilsum.files.scenarios import read_scenario
    from veilsum.jobs.paper import reproduce
    from veilsum.jobs.scenario_run import run_scenario
    from veilsum.privacy.accountant import Budget, Release
    from veilsum.privacy.allocation import Allocation, allocate_noise
    from veilsum.privacy.composition import Charge, Exposure
    from veilsum.privacy.conversions import (
        Leakage,
        attacker_success,
        divergence_for_success,
        dp_delta,
        dp_epsilon,
    )
    from veilsum.privacy.divergence import (
        effective_resistance,
        kl_divergence,
        swap_divergence,
    )
    from veilsum.privacy.doctor import Diagnosis, examine
    from veilsum.privacy.guarantee import Guarantee, guarantee
    from veilsum.privacy.lattice import LatticeDivergence, lattice_divergence
    from veilsum.privacy.planner import plan
    from veilsum.privacy.plans import Plan, Plans
    from veilsum.privacy.records import record_exchange_distance
    from veilsum.privacy.view import View
    from veilsum.privacy.worst_case import worst_case
    from veilsum.scenario import Scenario
    from veilsum.sim.executions import Executions, simulate
    from veilsum.sim.run import Run
    from veilsum.sim.vectorised import solve

__version__ = "0.1.0"

_HOME = {
    "core.bases": ("Affine", "Polynomial", "Quadratic"),
    "core.connectivity": ("algebraic_connectivity", "vertex_connectivity"),
    "core.costs": ("Cost",),
    "core.domains": ("Ball", "Box", "HalfSpaces", "Simplex", "WholeSpace"),
    "core.effective": ("EffectiveCost",),
    "core.gaussians": ("DegenerateGaussian",),
    "core.laws": ("GaussianMasks", "LatticeMasks", "NoMasks", "UniformMasks"),
    "core.methods.dgd": ("Dgd",),
    "core.methods.one_shot": ("OneShot",),
    "core.mixing": ("mixing_rate", "mixing_weights"),
    "core.remainders": ("SquaredNorm",),
    "core.settings": ("Settings",),
    "core.topology": ("Topology",),
    "errors": (
        *("BudgetError", "InvalidGraphError", "InvalidInputError", "InvalidPairError"),
        *("InvalidScenarioError", "LedgerError", "LocalProtocolError"),
        *("MissingExtraError", "NumericalError", "OutputError", "PeerProtocolError"),
        *("ProtocolError", "RangeError", "SecretError", "VeilsumError"),
    ),
    "files.graphs": ("read_topology", "topology_from"),
    "files.ledger": ("Ledger", "open_ledger", "read_ledger"),
    "files.scenarios": ("read_scenario",),
    "jobs.paper": ("reproduce",),
    "jobs.scenario_run": ("run_scenario",),
    "privacy.accountant": ("Budget", "Release"),
    "privacy.allocation": ("Allocation", "allocate_noise"),
    "privacy.composition": ("Charge", "Exposure"),
    "privacy.conversions": (
        *("Leakage", "attacker_success", "divergence_for_success"),
        *("dp_delta", "dp_epsilon"),
    ),
    "privacy.divergence": ("effective_resistance", "kl_divergence", "swap_divergence"),
    "privacy.doctor": ("Diagnosis", "examine"),
    "privacy.guarantee": ("Guarantee", "guarantee"),
    "privacy.lattice": ("LatticeDivergence", "lattice_divergence"),
    "privacy.planner": ("plan",),
    "privacy.plans": ("Plan", "Plans"),
    "privacy.records": ("record_exchange_distance",),
    "privacy.view": ("View",),
    "privacy.worst_case": ("worst_case",),
    "scenario": ("Scenario",),
    "sim.executions": ("Executions", "simulate"),
    "sim.run": ("Run",),
    "sim.vectorised": ("solve",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Affine",
    "Allocation",
    "Ball",
    "Box",
    "Budget",
    "BudgetError",
    "Charge",
    "Cost",
    "DegenerateGaussian",
    "Dgd",
    "Diagnosis",
    "EffectiveCost",
    "Executions",
    "Exposure",
    "GaussianMasks",
    "Guarantee",
    "HalfSpaces",
    "InvalidGraphError",
    "InvalidInputError",
    "InvalidPairError",
    "InvalidScenarioError",
    "LatticeDivergence",
    "LatticeMasks",
    "Leakage",
    "Ledger",
    "LedgerError",
    "LocalProtocolError",
    "MissingExtraError",
    "NoMasks",
    "NumericalError",
    "OneShot",
    "OutputError",
    "PeerProtocolError",
    "Plan",
    "Plans",
    "Polynomial",
    "ProtocolError",
    "Quadratic",
    "RangeError",
    "Release",
    "Run",
    "Scenario",
    "SecretError",
    "Settings",
    "Simplex",
    "SquaredNorm",
    "Topology",
    "UniformMasks",
    "VeilsumError",
    "View",
    "WholeSpace",
    "algebraic_connectivity",
    "allocate_noise",
    "attacker_success",
    "divergence_for_success",
    "dp_delta",
    "dp_epsilon",
    "effective_resistance",
    "examine",
    "guarantee",
    "kl_divergence",
    "lattice_divergence",
    "mixing_rate",
    "mixing_weights",
    "open_ledger",
    "plan",
    "read_ledger",
    "read_scenario",
    "read_topology",
    "record_exchange_distance",
    "reproduce",
    "run_scenario",
    "simulate",
    "solve",
    "swap_divergence",
    "topology_from",
    "vertex_connectivity",
    "worst_case",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'veilsum' has no attribute {name!r}")
    value = getattr(import_module(f"veilsum.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
