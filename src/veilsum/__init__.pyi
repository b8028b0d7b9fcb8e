"""The public names, once: `__init__.py` loads each from its home on first use."""

from .agreement.consortium import Address as Address
from .agreement.consortium import Consortium as Consortium
from .agreement.scenario import Scenario as Scenario
from .agreement.study import AgreedStudy as AgreedStudy
from .costs.bases import (
    Affine as Affine,
)
from .costs.bases import (
    Polynomial as Polynomial,
)
from .costs.bases import (
    Quadratic as Quadratic,
)
from .costs.cost import Cost as Cost
from .costs.domains import (
    Ball as Ball,
)
from .costs.domains import (
    Box as Box,
)
from .costs.domains import (
    HalfSpaces as HalfSpaces,
)
from .costs.domains import (
    Simplex as Simplex,
)
from .costs.domains import (
    WholeSpace as WholeSpace,
)
from .costs.effective import EffectiveCost as EffectiveCost
from .costs.remainders import SquaredNorm as SquaredNorm
from .drivers.driver import GivenUpError as GivenUpError
from .drivers.executions import (
    Executions as Executions,
)
from .drivers.executions import (
    simulate as simulate,
)
from .errors import (
    BadGradientError as BadGradientError,
)
from .errors import (
    BudgetError as BudgetError,
)
from .errors import (
    DivergedError as DivergedError,
)
from .errors import (
    InvalidGraphError as InvalidGraphError,
)
from .errors import (
    InvalidInputError as InvalidInputError,
)
from .errors import (
    InvalidPairError as InvalidPairError,
)
from .errors import (
    InvalidScenarioError as InvalidScenarioError,
)
from .errors import (
    LedgerError as LedgerError,
)
from .errors import (
    LocalProtocolError as LocalProtocolError,
)
from .errors import (
    MemoryShortError as MemoryShortError,
)
from .errors import (
    MissingExtraError as MissingExtraError,
)
from .errors import (
    NotReadyError as NotReadyError,
)
from .errors import (
    NumericalError as NumericalError,
)
from .errors import (
    OutputError as OutputError,
)
from .errors import (
    PeerProtocolError as PeerProtocolError,
)
from .errors import (
    ProtocolError as ProtocolError,
)
from .errors import (
    RangeError as RangeError,
)
from .errors import (
    SecretError as SecretError,
)
from .errors import (
    VeilsumError as VeilsumError,
)
from .files.consortiums import (
    draft_consortium as draft_consortium,
)
from .files.consortiums import (
    read_agreement as read_agreement,
)
from .files.consortiums import (
    read_consortium as read_consortium,
)
from .files.consortiums import (
    write_consortium as write_consortium,
)
from .files.graphs import (
    read_topology as read_topology,
)
from .files.graphs import (
    topology_from as topology_from,
)
from .files.ledger import (
    Ledger as Ledger,
)
from .files.ledger import (
    open_ledger as open_ledger,
)
from .files.ledger import (
    read_ledger as read_ledger,
)
from .files.scenarios import read_scenario as read_scenario
from .files.tables import read_table as read_table
from .graphs.connectivity import (
    algebraic_connectivity as algebraic_connectivity,
)
from .graphs.connectivity import (
    vertex_connectivity as vertex_connectivity,
)
from .graphs.mixing import (
    mixing_rate as mixing_rate,
)
from .graphs.mixing import (
    mixing_weights as mixing_weights,
)
from .graphs.topology import Topology as Topology
from .jobs.cox import (
    CoxResult as CoxResult,
)
from .jobs.cox import (
    cox as cox,
)
from .jobs.cox_bins import (
    BinnedCoxResult as BinnedCoxResult,
)
from .jobs.dispatch import (
    DispatchResult as DispatchResult,
)
from .jobs.dispatch import (
    dispatch as dispatch,
)
from .jobs.dispatch_periods import (
    PeriodsResult as PeriodsResult,
)
from .jobs.dispatch_periods import (
    dispatch_periods as dispatch_periods,
)
from .jobs.estimates import meta_analysis as meta_analysis
from .jobs.estimators import (
    PrivateGammaRegressor as PrivateGammaRegressor,
)
from .jobs.estimators import (
    PrivateLinearRegression as PrivateLinearRegression,
)
from .jobs.estimators import (
    PrivateLogisticRegression as PrivateLogisticRegression,
)
from .jobs.estimators import (
    PrivatePoissonRegressor as PrivatePoissonRegressor,
)
from .jobs.evaluate import (
    ChanceEvaluation as ChanceEvaluation,
)
from .jobs.evaluate import (
    ConcordanceEvaluation as ConcordanceEvaluation,
)
from .jobs.evaluate import (
    FoldsEvaluation as FoldsEvaluation,
)
from .jobs.evaluate import (
    NumberEvaluation as NumberEvaluation,
)
from .jobs.evaluate import (
    evaluate as evaluate,
)
from .jobs.from_moments import (
    Components as Components,
)
from .jobs.from_moments import (
    Path as Path,
)
from .jobs.from_moments import (
    TwoStageFit as TwoStageFit,
)
from .jobs.from_moments import (
    elastic_net as elastic_net,
)
from .jobs.from_moments import (
    principal_components as principal_components,
)
from .jobs.from_moments import (
    two_stage as two_stage,
)
from .jobs.gradient_fit import (
    GradientFit as GradientFit,
)
from .jobs.gradient_fit import (
    fit_by_gradients as fit_by_gradients,
)
from .jobs.job_file import (
    JobFile as JobFile,
)
from .jobs.job_file import (
    read_job as read_job,
)
from .jobs.large import (
    LargeRun as LargeRun,
)
from .jobs.large import (
    large as large,
)
from .jobs.meta import MetaResult as MetaResult
from .jobs.meta import PooledResult as PooledResult
from .jobs.meta import meta as meta
from .jobs.mixed import MixedResult as MixedResult
from .jobs.mixed import mixed as mixed
from .jobs.quadratic import (
    QuadraticResult as QuadraticResult,
)
from .jobs.quadratic import (
    quadratic_program as quadratic_program,
)
from .jobs.regression import (
    FitResult as FitResult,
)
from .jobs.regression import (
    fit as fit,
)
from .jobs.regression import (
    fit_arrays as fit_arrays,
)
from .jobs.solve import (
    Run as Run,
)
from .jobs.solve import (
    RunRecord as RunRecord,
)
from .jobs.solve import (
    run_scenario as run_scenario,
)
from .jobs.solve import (
    solve as solve,
)
from .jobs.statistics import (
    StatisticsResult as StatisticsResult,
)
from .jobs.statistics import (
    statistics as statistics,
)
from .jobs.sums import (
    SumResult as SumResult,
)
from .jobs.sums import (
    mean as mean,
)
from .jobs.sums import (
    sum as sum,
)
from .jobs.survey import (
    SurveyResult as SurveyResult,
)
from .jobs.survey import (
    survey as survey,
)
from .jobs.survival import (
    SurvivalResult as SurvivalResult,
)
from .jobs.survival import (
    survival as survival,
)
from .jobs.sweep import (
    Sweep as Sweep,
)
from .jobs.sweep import (
    sweep as sweep,
)
from .methods.certificate import Bounds as Bounds
from .methods.dgd import Dgd as Dgd
from .methods.link_faults import LinkFaults as LinkFaults
from .methods.one_shot import OneShot as OneShot
from .methods.settings import Settings as Settings
from .models.curvature import curvature_bounds as curvature_bounds
from .models.fleets import Fleet as Fleet
from .models.price import Site as Site
from .models.row_costs import glm_cost as glm_cost
from .models.row_costs import (
    huber_cost as huber_cost,
)
from .models.row_costs import (
    smoothed_hinge_cost as smoothed_hinge_cost,
)
from .models.rows import Rows as Rows
from .net.evidence import Evidence as Evidence
from .net.identity import (
    Identity as Identity,
)
from .net.identity import (
    new_identity as new_identity,
)
from .net.identity import (
    read_identity as read_identity,
)
from .net.receipt import (
    Receipt as Receipt,
)
from .net.receipt import (
    Verdict as Verdict,
)
from .net.receipt import (
    read_receipt as read_receipt,
)
from .net.receipt import (
    verify_receipts as verify_receipts,
)
from .net.transcript_file import read_transcript as read_transcript
from .numbers.laws import (
    GaussianMasks as GaussianMasks,
)
from .numbers.laws import (
    LatticeMasks as LatticeMasks,
)
from .numbers.laws import (
    Masks as Masks,
)
from .numbers.laws import (
    NoMasks as NoMasks,
)
from .numbers.laws import UniformMasks as UniformMasks
from .paper import reproduce as reproduce
from .parties.agreed import promise_of as promise_of
from .parties.consent import (
    Consent as Consent,
)
from .parties.consent import (
    consent_to as consent_to,
)
from .parties.events import RunEvent as RunEvent
from .parties.from_python import (
    JoinOptions as JoinOptions,
)
from .parties.from_python import (
    join as join,
)
from .parties.from_python import (
    join_async as join_async,
)
from .parties.own_rules import (
    OwnRules as OwnRules,
)
from .parties.own_rules import (
    read_own_rules as read_own_rules,
)
from .parties.study_page import consent_to_study as consent_to_study
from .parties.studying import JoinedStudy as JoinedStudy
from .parties.studying import QuestionStatus as QuestionStatus
from .parties.studying import StudyStatus as StudyStatus
from .parties.taking_part import (
    ConsentError as ConsentError,
)
from .parties.taking_part import (
    Joined as Joined,
)
from .privacy.accountant import (
    Budget as Budget,
)
from .privacy.accountant import (
    KnownSum as KnownSum,
)
from .privacy.allocation import (
    Allocation as Allocation,
)
from .privacy.allocation import (
    allocate_noise as allocate_noise,
)
from .privacy.composition import (
    Charge as Charge,
)
from .privacy.composition import (
    Exposure as Exposure,
)
from .privacy.conversions import (
    Leakage as Leakage,
)
from .privacy.conversions import (
    attacker_success as attacker_success,
)
from .privacy.conversions import (
    divergence_for_success as divergence_for_success,
)
from .privacy.conversions import (
    dp_delta as dp_delta,
)
from .privacy.conversions import (
    dp_epsilon as dp_epsilon,
)
from .privacy.diagnosis import (
    Diagnosis as Diagnosis,
)
from .privacy.diagnosis import (
    examine as examine,
)
from .privacy.divergence import DegenerateGaussian as DegenerateGaussian
from .privacy.divergence import (
    effective_resistance as effective_resistance,
)
from .privacy.divergence import (
    kl_divergence as kl_divergence,
)
from .privacy.divergence import (
    swap_divergence as swap_divergence,
)
from .privacy.guarantee import (
    Guarantee as Guarantee,
)
from .privacy.guarantee import (
    guarantee as guarantee,
)
from .privacy.lattice import (
    LatticeDivergence as LatticeDivergence,
)
from .privacy.lattice import (
    lattice_divergence as lattice_divergence,
)
from .privacy.planner import (
    NetworkPlan as NetworkPlan,
)
from .privacy.planner import (
    Plans as Plans,
)
from .privacy.planner import plan as plan
from .privacy.records import record_exchange_distance as record_exchange_distance
from .privacy.transcript import Transcript as Transcript
from .privacy.view import View as View
from .privacy.worst_case import worst_case as worst_case
from .tables.columns import (
    Column as Column,
)
from .tables.columns import (
    SchemaError as SchemaError,
)
from .tables.propensity import Propensity as Propensity
from .tables.rules import Rules as Rules
from .tables.schema import Schema as Schema

__version__: str
__all__: list[str]
