"""The public names, once: `__init__.py` loads each from its home on first use."""

from .consortium.addresses import Address as Address
from .consortium.consortium import Consortium as Consortium
from .consortium.scenario import Scenario as Scenario
from .consortium.study import AgreedStudy as AgreedStudy
from .drivers.driver import GivenUpError as GivenUpError
from .errors import (
    BadGradientError as BadGradientError,
    BudgetError as BudgetError,
    DivergedError as DivergedError,
    InvalidGraphError as InvalidGraphError,
    InvalidInputError as InvalidInputError,
    InvalidPairError as InvalidPairError,
    InvalidScenarioError as InvalidScenarioError,
    LedgerError as LedgerError,
    LocalProtocolError as LocalProtocolError,
    MemoryShortError as MemoryShortError,
    MissingExtraError as MissingExtraError,
    NotReadyError as NotReadyError,
    NumericalError as NumericalError,
    OutputError as OutputError,
    PeerProtocolError as PeerProtocolError,
    ProtocolError as ProtocolError,
    RangeError as RangeError,
    SecretError as SecretError,
    VeilsumError as VeilsumError,
)
from .files.consortiums import (
    draft_consortium as draft_consortium,
    read_agreement as read_agreement,
    read_consortium as read_consortium,
    write_consortium as write_consortium,
)
from .files.graphs import (
    read_topology as read_topology,
    topology_from as topology_from,
)
from .files.ledger import (
    Ledger as Ledger,
    open_ledger as open_ledger,
    read_ledger as read_ledger,
)
from .files.scenarios import read_scenario as read_scenario
from .files.tables import read_table as read_table
from .graphs.connectivity import (
    algebraic_connectivity as algebraic_connectivity,
    vertex_connectivity as vertex_connectivity,
)
from .graphs.mixing import (
    mixing_rate as mixing_rate,
    mixing_weights as mixing_weights,
)
from .graphs.topology import Topology as Topology
from .masks.laws import (
    GaussianMasks as GaussianMasks,
    LatticeMasks as LatticeMasks,
    Masks as Masks,
    NoMasks as NoMasks,
    UniformMasks as UniformMasks,
)
from .minimise.costs.bases import (
    Affine as Affine,
    Polynomial as Polynomial,
    Quadratic as Quadratic,
)
from .minimise.costs.cost import Cost as Cost
from .minimise.costs.domains import (
    Ball as Ball,
    Box as Box,
    HalfSpaces as HalfSpaces,
    Simplex as Simplex,
    WholeSpace as WholeSpace,
)
from .minimise.costs.effective import EffectiveCost as EffectiveCost
from .minimise.costs.remainders import SquaredNorm as SquaredNorm
from .minimise.costs.rows import (
    glm_cost as glm_cost,
    huber_cost as huber_cost,
    smoothed_hinge_cost as smoothed_hinge_cost,
)
from .minimise.curvature import curvature_bounds as curvature_bounds
from .minimise.executions import (
    Executions as Executions,
    simulate as simulate,
)
from .minimise.gradient_fit import (
    GradientFit as GradientFit,
    fit_by_gradients as fit_by_gradients,
)
from .minimise.large import (
    LargeRun as LargeRun,
    large as large,
)
from .minimise.methods.certificate import Bounds as Bounds
from .minimise.methods.dgd import Dgd as Dgd
from .minimise.methods.link_faults import LinkFaults as LinkFaults
from .minimise.methods.one_shot import OneShot as OneShot
from .minimise.methods.settings import Settings as Settings
from .minimise.paper import reproduce as reproduce
from .minimise.quadratic import (
    QuadraticResult as QuadraticResult,
    quadratic_program as quadratic_program,
)
from .minimise.solve import (
    Run as Run,
    RunRecord as RunRecord,
    run_scenario as run_scenario,
    solve as solve,
)
from .minimise.sweep import (
    Sweep as Sweep,
    sweep as sweep,
)
from .models.fleets import Fleet as Fleet
from .models.price import Site as Site
from .models.rows import Rows as Rows
from .net.evidence import Evidence as Evidence
from .net.identity import (
    Identity as Identity,
    new_identity as new_identity,
    read_identity as read_identity,
)
from .net.receipt import (
    Receipt as Receipt,
    Verdict as Verdict,
    read_receipt as read_receipt,
    verify_receipts as verify_receipts,
)
from .net.transcript_file import read_transcript as read_transcript
from .party.agreed import promise_of as promise_of
from .party.api import (
    JoinOptions as JoinOptions,
    join as join,
    join_async as join_async,
)
from .party.consent import (
    Consent as Consent,
    consent_to as consent_to,
)
from .party.own_rules import (
    OwnRules as OwnRules,
    read_own_rules as read_own_rules,
)
from .party.run import (
    ConsentError as ConsentError,
    Joined as Joined,
)
from .party.run_status import RunEvent as RunEvent
from .party.study_page import consent_to_study as consent_to_study
from .party.studying import (
    JoinedStudy as JoinedStudy,
    QuestionStatus as QuestionStatus,
    StudyStatus as StudyStatus,
)
from .privacy.accountant import (
    Budget as Budget,
    KnownSum as KnownSum,
)
from .privacy.allocation import (
    Allocation as Allocation,
    allocate_noise as allocate_noise,
)
from .privacy.composition import (
    Charge as Charge,
    Exposure as Exposure,
)
from .privacy.conversions import (
    Leakage as Leakage,
    attacker_success as attacker_success,
    divergence_for_success as divergence_for_success,
    dp_delta as dp_delta,
    dp_epsilon as dp_epsilon,
)
from .privacy.diagnosis import (
    Diagnosis as Diagnosis,
    examine as examine,
)
from .privacy.divergence import (
    DegenerateGaussian as DegenerateGaussian,
    effective_resistance as effective_resistance,
    kl_divergence as kl_divergence,
    swap_divergence as swap_divergence,
)
from .privacy.guarantee import (
    Guarantee as Guarantee,
    guarantee as guarantee,
)
from .privacy.lattice import (
    LatticeDivergence as LatticeDivergence,
    lattice_divergence as lattice_divergence,
)
from .privacy.planner import (
    NetworkPlan as NetworkPlan,
    Plans as Plans,
    plan as plan,
)
from .privacy.records import record_exchange_distance as record_exchange_distance
from .privacy.transcript import Transcript as Transcript, View as View
from .privacy.worst_case import worst_case as worst_case
from .questions.cox import cox as cox
from .questions.cox.binned import BinnedCoxResult as BinnedCoxResult
from .questions.cox.stratified import CoxResult as CoxResult
from .questions.dispatch import (
    DispatchResult as DispatchResult,
    PeriodsResult as PeriodsResult,
    dispatch as dispatch,
    dispatch_periods as dispatch_periods,
)
from .questions.evaluate import evaluate as evaluate
from .questions.evaluate.bins import ChanceEvaluation as ChanceEvaluation
from .questions.evaluate.concordance import (
    ConcordanceEvaluation as ConcordanceEvaluation,
)
from .questions.evaluate.errors import NumberEvaluation as NumberEvaluation
from .questions.evaluate.refits import FoldsEvaluation as FoldsEvaluation
from .questions.from_moments import (
    Components as Components,
    Path as Path,
    TwoStageFit as TwoStageFit,
    elastic_net as elastic_net,
    principal_components as principal_components,
    two_stage as two_stage,
)
from .questions.job_file import (
    JobFile as JobFile,
    read_job as read_job,
)
from .questions.meta import (
    MetaResult as MetaResult,
    PooledResult as PooledResult,
    meta as meta,
    meta_analysis as meta_analysis,
)
from .questions.mixed import MixedResult as MixedResult, mixed as mixed
from .questions.regression import fit as fit, fit_arrays as fit_arrays
from .questions.regression.estimators import (
    PrivateGammaRegressor as PrivateGammaRegressor,
    PrivateLinearRegression as PrivateLinearRegression,
    PrivateLogisticRegression as PrivateLogisticRegression,
    PrivatePoissonRegressor as PrivatePoissonRegressor,
)
from .questions.regression.result import FitResult as FitResult
from .questions.statistics import (
    StatisticsResult as StatisticsResult,
    statistics as statistics,
)
from .questions.sums import (
    SumResult as SumResult,
    mean as mean,
    sum as sum,
)
from .questions.survival import (
    SurvivalResult as SurvivalResult,
    survival as survival,
)
from .surveys.question import (
    SurveyResult as SurveyResult,
    survey as survey,
)
from .tables.columns import (
    Column as Column,
    SchemaError as SchemaError,
)
from .tables.propensity import Propensity as Propensity
from .tables.rules import Rules as Rules
from .tables.schema import Schema as Schema

__version__: str
__all__: list[str]
