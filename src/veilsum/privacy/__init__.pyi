"""The public names, once: `__init__.py` loads each from its home on first use."""

from .accountant import Budget as Budget, KnownSum as KnownSum
from .allocation import Allocation as Allocation, allocate_noise as allocate_noise
from .composition import Charge as Charge, Exposure as Exposure
from .conversions import (
    Leakage as Leakage,
    attacker_success as attacker_success,
    divergence_for_success as divergence_for_success,
    dp_delta as dp_delta,
    dp_epsilon as dp_epsilon,
)
from .diagnosis import Diagnosis as Diagnosis, examine as examine
from .divergence import (
    DegenerateGaussian as DegenerateGaussian,
    effective_resistance as effective_resistance,
    kl_divergence as kl_divergence,
    swap_divergence as swap_divergence,
)
from .lattice import (
    LatticeDivergence as LatticeDivergence,
    lattice_divergence as lattice_divergence,
)
from .planner import NetworkPlan as NetworkPlan, Plans as Plans
from .records import record_exchange_distance as record_exchange_distance
from .transcript import Transcript as Transcript, View as View

__all__: list[str]
