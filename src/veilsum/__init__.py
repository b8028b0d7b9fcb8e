"""Sums, statistics and models over private data of several parties, peer to peer.

Names are grouped by purpose. Each is loaded when it is first used.

Questions about tables
    sum, mean, statistics, survival, cox, fit, fit_arrays, evaluate, mixed, survey
Questions to published estimates and to sums
    meta, meta_analysis, elastic_net, principal_components, two_stage
Questions about costs
    solve, quadratic_program, dispatch, dispatch_periods
Estimators as in scikit-learn
    PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor,
    PrivateGammaRegressor
Results
    SumResult, StatisticsResult, SurvivalResult, CoxResult, BinnedCoxResult, FitResult,
    ChanceEvaluation, NumberEvaluation, FoldsEvaluation, ConcordanceEvaluation,
    MixedResult, SurveyResult, MetaResult, PooledResult, Path, Components, TwoStageFit,
    Run, QuadraticResult, DispatchResult, PeriodsResult
Data
    Schema, Column, read_dictionary, Rules, read_table, Propensity, Rows, Site, Fleet,
    read_job, JobFile
Taking part
    join, join_async, JoinOptions, Joined, Identity, new_identity, read_identity,
    Consortium, draft_consortium, read_consortium, write_consortium, Consent, consent_to
Checking
    Topology, guarantee, Guarantee, worst_case, plan, Receipt, read_receipt,
    verify_receipts, Verdict, Ledger, open_ledger, read_ledger
Errors
    VeilsumError, InvalidInputError, SchemaError, ConsentError, GivenUpError
Packages
    audit       play attacks on masks
    consortium  addresses, agreed studies and scenarios after parsing
    errors      all other errors
    files       read scenarios, agreed studies and graphs
    graphs      connectivity and mixing rates of graphs
    masks       laws of masks
    minimise    costs, domains and methods for `solve`; sweeps, large graphs
    net         transcripts and evidence
    party       studies, own rules and events of a party, records of audits
    privacy     divergences, coalitions, allocation of noise, budgets

Example:
    >>> import veilsum as vs
    >>> int(vs.sum({"north": 12, "east": 30, "south": 7, "west": 21}, seed=1).value)
    70
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
