"""The public names, once: `__init__.py` loads each from its home on first use."""

from . import (
    audit as audit,
    consortium as consortium,
    errors as errors,
    files as files,
    graphs as graphs,
    masks as masks,
    minimise as minimise,
    net as net,
    party as party,
    privacy as privacy,
)
from .consortium.consortium import Consortium as Consortium
from .drivers.driver import GivenUpError as GivenUpError
from .errors import InvalidInputError as InvalidInputError, VeilsumError as VeilsumError
from .files.consortiums import (
    draft_consortium as draft_consortium,
    read_consortium as read_consortium,
    write_consortium as write_consortium,
)
from .files.ledger import (
    Ledger as Ledger,
    open_ledger as open_ledger,
    read_ledger as read_ledger,
)
from .files.scenarios import read_dictionary as read_dictionary
from .files.tables import read_table as read_table
from .graphs.topology import Topology as Topology
from .minimise.quadratic import (
    QuadraticResult as QuadraticResult,
    quadratic_program as quadratic_program,
)
from .minimise.solve import Run as Run, solve as solve
from .models.fleets import Fleet as Fleet
from .models.price import Site as Site
from .models.rows import Rows as Rows
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
from .party.api import (
    JoinOptions as JoinOptions,
    join as join,
    join_async as join_async,
)
from .party.consent import Consent as Consent, consent_to as consent_to
from .party.run import ConsentError as ConsentError, Joined as Joined
from .privacy.guarantee import Guarantee as Guarantee, guarantee as guarantee
from .privacy.planner import plan as plan
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
from .questions.sums import SumResult as SumResult, mean as mean, sum as sum
from .questions.survival import SurvivalResult as SurvivalResult, survival as survival
from .sums.job_file import JobFile as JobFile, read_job as read_job
from .surveys.question import SurveyResult as SurveyResult, survey as survey
from .tables.columns import Column as Column, SchemaError as SchemaError
from .tables.propensity import Propensity as Propensity
from .tables.rules import Rules as Rules
from .tables.schema import Schema as Schema

__version__: str
__all__: list[str]
