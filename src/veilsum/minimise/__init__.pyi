"""The public names, once: `__init__.py` loads each from its home on first use."""

from .costs.bases import (
    Affine as Affine,
    Polynomial as Polynomial,
    Quadratic as Quadratic,
)
from .costs.cost import Cost as Cost
from .costs.domains import (
    Ball as Ball,
    Box as Box,
    HalfSpaces as HalfSpaces,
    Simplex as Simplex,
    WholeSpace as WholeSpace,
)
from .costs.effective import EffectiveCost as EffectiveCost
from .costs.remainders import SquaredNorm as SquaredNorm
from .costs.rows import (
    glm_cost as glm_cost,
    huber_cost as huber_cost,
    smoothed_hinge_cost as smoothed_hinge_cost,
)
from .curvature import curvature_bounds as curvature_bounds
from .executions import Executions as Executions, simulate as simulate
from .gradient_fit import (
    GradientFit as GradientFit,
    fit_by_gradients as fit_by_gradients,
)
from .large_graphs import LargeRun as LargeRun, large as large
from .methods.certificate import Bounds as Bounds
from .methods.dgd import Dgd as Dgd
from .methods.link_faults import LinkFaults as LinkFaults
from .methods.one_shot import OneShot as OneShot
from .methods.settings import Settings as Settings
from .paper import reproduce as reproduce
from .solve import RunRecord as RunRecord, run_scenario as run_scenario
from .sweeps import Sweep as Sweep, sweep as sweep

__all__: list[str]
