"""veilsum: minimise a sum of private costs peer to peer.

Public names are listed in `__all__` and loaded when they are first used, so that
`import veilsum` costs nothing and heavy libraries stay out of short commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilsum.agreement.scenario import Scenario
    from veilsum.costs.bases import Affine, Polynomial, Quadratic
    from veilsum.costs.cost import Cost
    from veilsum.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
    from veilsum.costs.effective import EffectiveCost
    from veilsum.costs.remainders import SquaredNorm
    from veilsum.drivers.executions import Executions, simulate
    from veilsum.drivers.masked_sums import GivenUpError
    from veilsum.drivers.run import Run
    from veilsum.drivers.vectorised import solve
    from veilsum.errors import (
        BadGradientError,
        BudgetError,
        DivergedError,
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
    from veilsum.files.tables import read_table
    from veilsum.graphs.connectivity import algebraic_connectivity, vertex_connectivity
    from veilsum.graphs.mixing import mixing_rate, mixing_weights
    from veilsum.graphs.topology import Topology
    from veilsum.jobs.dispatch import DispatchResult, dispatch
    from veilsum.jobs.estimators import (
        PrivateGammaRegressor,
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivatePoissonRegressor,
    )
    from veilsum.jobs.fit import FitResult, fit, fit_arrays
    from veilsum.jobs.gradient_fit import GradientFit, fit_by_gradients
    from veilsum.jobs.job_file import JobFile, read_job
    from veilsum.jobs.quadratic import QuadraticResult, quadratic_program
    from veilsum.jobs.rules import RowRules
    from veilsum.jobs.scenario_run import run_scenario
    from veilsum.jobs.statistics import statistics
    from veilsum.jobs.statistics_result import StatisticsResult
    from veilsum.jobs.sums import SumResult, mean, sum
    from veilsum.methods.certificate import Bounds
    from veilsum.methods.dgd import Dgd
    from veilsum.methods.link_faults import LinkFaults
    from veilsum.methods.one_shot import OneShot
    from veilsum.methods.settings import Settings
    from veilsum.models.curvature import curvature_bounds
    from veilsum.models.dispatch import Site
    from veilsum.models.glm_cost import glm_cost
    from veilsum.models.losses import huber_cost, smoothed_hinge_cost
    from veilsum.models.rows import Rows
    from veilsum.numbers.laws import (
        GaussianMasks,
        LatticeMasks,
        Masks,
        NoMasks,
        UniformMasks,
    )
    from veilsum.paper import reproduce
    from veilsum.privacy.accountant import Budget, KnownSum
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
        DegenerateGaussian,
        effective_resistance,
        kl_divergence,
        swap_divergence,
    )
    from veilsum.privacy.doctor import Diagnosis, examine
    from veilsum.privacy.guarantee import Guarantee, guarantee
    from veilsum.privacy.lattice import LatticeDivergence, lattice_divergence
    from veilsum.privacy.planner import NetworkPlan, Plans, plan
    from veilsum.privacy.records import record_exchange_distance
    from veilsum.privacy.view import View
    from veilsum.privacy.worst_case import worst_case
    from veilsum.tables.columns import Column, SchemaError
    from veilsum.tables.schema import Schema

__version__ = "0.1.0"

_HOME = {
    "costs.bases": ("Affine", "Polynomial", "Quadratic"),
    "graphs.connectivity": ("algebraic_connectivity", "vertex_connectivity"),
    "costs.cost": ("Cost",),
    "models.curvature": ("curvature_bounds",),
    "costs.domains": ("Ball", "Box", "HalfSpaces", "Simplex", "WholeSpace"),
    "costs.effective": ("EffectiveCost",),
    "numbers.laws": (
        *("GaussianMasks", "LatticeMasks", "Masks", "NoMasks", "UniformMasks"),
    ),
    "methods.certificate": ("Bounds",),
    "methods.dgd": ("Dgd",),
    "methods.one_shot": ("OneShot",),
    "graphs.mixing": ("mixing_rate", "mixing_weights"),
    "models.dispatch": ("Site",),
    "models.glm_cost": ("glm_cost",),
    "models.losses": ("huber_cost", "smoothed_hinge_cost"),
    "models.rows": ("Rows",),
    "costs.remainders": ("SquaredNorm",),
    "methods.settings": ("Settings",),
    "graphs.topology": ("Topology",),
    "errors": (
        "BadGradientError",
        "BudgetError",
        "DivergedError",
        "InvalidGraphError",
        "InvalidInputError",
        "InvalidPairError",
        "InvalidScenarioError",
        "LedgerError",
        "LocalProtocolError",
        "MissingExtraError",
        "NumericalError",
        "OutputError",
        "PeerProtocolError",
        "ProtocolError",
        "RangeError",
        "SecretError",
        "VeilsumError",
    ),
    "files.graphs": ("read_topology", "topology_from"),
    "files.ledger": ("Ledger", "open_ledger", "read_ledger"),
    "files.scenarios": ("read_scenario",),
    "files.tables": ("read_table",),
    "tables.columns": ("Column", "SchemaError"),
    "jobs.dispatch": ("DispatchResult", "dispatch"),
    "jobs.estimators": (
        "PrivateGammaRegressor",
        "PrivateLinearRegression",
        "PrivateLogisticRegression",
        "PrivatePoissonRegressor",
    ),
    "jobs.fit": ("FitResult", "fit", "fit_arrays"),
    "jobs.gradient_fit": ("GradientFit", "fit_by_gradients"),
    "jobs.job_file": ("JobFile", "read_job"),
    "paper": ("reproduce",),
    "jobs.quadratic": ("QuadraticResult", "quadratic_program"),
    "jobs.rules": ("RowRules",),
    "jobs.scenario_run": ("run_scenario",),
    "tables.schema": ("Schema",),
    "jobs.statistics": ("statistics",),
    "jobs.statistics_result": ("StatisticsResult",),
    "jobs.sums": ("SumResult", "mean", "sum"),
    "privacy.accountant": ("Budget", "KnownSum"),
    "privacy.allocation": ("Allocation", "allocate_noise"),
    "privacy.composition": ("Charge", "Exposure"),
    "privacy.conversions": (
        "Leakage",
        "attacker_success",
        "divergence_for_success",
        "dp_delta",
        "dp_epsilon",
    ),
    "privacy.divergence": (
        *("DegenerateGaussian", "effective_resistance", "kl_divergence"),
        "swap_divergence",
    ),
    "privacy.doctor": ("Diagnosis", "examine"),
    "privacy.guarantee": ("Guarantee", "guarantee"),
    "privacy.lattice": ("LatticeDivergence", "lattice_divergence"),
    "privacy.planner": ("NetworkPlan", "Plans", "plan"),
    "privacy.records": ("record_exchange_distance",),
    "privacy.view": ("View",),
    "privacy.worst_case": ("worst_case",),
    "agreement.scenario": ("Scenario",),
    "drivers.executions": ("Executions", "simulate"),
    "methods.link_faults": ("LinkFaults",),
    "drivers.masked_sums": ("GivenUpError",),
    "drivers.run": ("Run",),
    "drivers.vectorised": ("solve",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Affine",
    "Allocation",
    "BadGradientError",
    "Ball",
    "Bounds",
    "Box",
    "Budget",
    "BudgetError",
    "Charge",
    "Column",
    "Cost",
    "DegenerateGaussian",
    "Dgd",
    "Diagnosis",
    "DispatchResult",
    "DivergedError",
    "EffectiveCost",
    "Executions",
    "Exposure",
    "FitResult",
    "GaussianMasks",
    "GivenUpError",
    "GradientFit",
    "Guarantee",
    "HalfSpaces",
    "InvalidGraphError",
    "InvalidInputError",
    "InvalidPairError",
    "InvalidScenarioError",
    "JobFile",
    "KnownSum",
    "LatticeDivergence",
    "LatticeMasks",
    "Leakage",
    "Ledger",
    "LedgerError",
    "LinkFaults",
    "LocalProtocolError",
    "Masks",
    "MissingExtraError",
    "NetworkPlan",
    "NoMasks",
    "NumericalError",
    "OneShot",
    "OutputError",
    "PeerProtocolError",
    "Plans",
    "Polynomial",
    "PrivateGammaRegressor",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "ProtocolError",
    "Quadratic",
    "QuadraticResult",
    "RangeError",
    "RowRules",
    "Rows",
    "Run",
    "Scenario",
    "Schema",
    "SchemaError",
    "SecretError",
    "Settings",
    "Simplex",
    "Site",
    "SquaredNorm",
    "StatisticsResult",
    "SumResult",
    "Topology",
    "UniformMasks",
    "VeilsumError",
    "View",
    "WholeSpace",
    "algebraic_connectivity",
    "allocate_noise",
    "attacker_success",
    "curvature_bounds",
    "dispatch",
    "divergence_for_success",
    "dp_delta",
    "dp_epsilon",
    "effective_resistance",
    "examine",
    "fit",
    "fit_arrays",
    "fit_by_gradients",
    "glm_cost",
    "guarantee",
    "huber_cost",
    "kl_divergence",
    "lattice_divergence",
    "mean",
    "mixing_rate",
    "mixing_weights",
    "open_ledger",
    "plan",
    "quadratic_program",
    "read_job",
    "read_ledger",
    "read_scenario",
    "read_table",
    "read_topology",
    "record_exchange_distance",
    "reproduce",
    "run_scenario",
    "simulate",
    "smoothed_hinge_cost",
    "solve",
    "statistics",
    "sum",
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
