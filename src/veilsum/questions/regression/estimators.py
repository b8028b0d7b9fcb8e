"""Private regressions as scikit-learn estimators.

model = PrivateLogisticRegression(rules=Rules(minimum_rows=40))
model.fit(X, y, parties=hospital)  # whose row is it? one name for each row
print(model.result_.summary())

An estimator has all rows in one process, so this is a rehearsal: each party's rows are
used as they would be on its own computer, and `result_` says what others would see.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partialmethod
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from veilsum.errors import InvalidInputError, load_extra_package
from veilsum.fits.fitted import INTERCEPT
from veilsum.graphs.topology import GraphLike
from veilsum.masks.laws import LawName
from veilsum.models.families import Binomial, Family, Gamma, GaussianFamily, Poisson
from veilsum.models.fineness import MOST_DIGITS
from veilsum.models.rows import Design, PerRow
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.questions.regression import fit_arrays
from veilsum.questions.regression.result import FitResult
from veilsum.sums.terms import SumOptions
from veilsum.tables.rules import Rules

# Who imports this module wants scikit-learn: classes cannot wait for their bases.
load_extra_package("sklearn", extra="sklearn", what="estimators")
_base: Any = import_module("sklearn.base")
_metrics: Any = import_module("sklearn.metrics")
_multiclass: Any = import_module("sklearn.utils.multiclass")
_validation: Any = import_module("sklearn.utils.validation")

# By party, which rows are its own.
Held = Mapping[str, Array[np.intp]]


# Rows of one holder are hidden from nobody: any number of sums may be released.
ONE_HOLDER = Rules.none()


class Rates(Poisson):
    """Poisson means for responses that need not be whole, such as claims per year."""

    def check(self, response: PerRow) -> None:
        """Refuse what is below zero."""
        if not (response >= 0.0).all():
            raise InvalidInputError(
                "the response of a poisson regression must not be below 0 in any row",
                code="response-negative",
            )


class PrivateRegression(_base.BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators here; use one of its subclasses.

    Args:
        ridge: penalty on each squared coefficient except the intercept's, added to the
            sum of squares or the deviance of all rows.
        digits: as for `fit`; without it 4, or 12 where all rows are one holder's.
        fit_intercept: whether to add a column of ones.
        topology: graph of the mask exchange, or the name of a family such as
            "regular:18:4", whose parties are taken in the order of their names; by
            default, all pairs of parties.
        law: distribution of the masks; `uniform` hides everything but the sums.
        sigma: for `lattice`, the standard deviation of a share.
        tolerate: number of parties that may collude.
        minimum_honest: fewest other parties.
        rules: rules that every party applies.
        n_parties: number of parties that rows are dealt to if `fit` gets no `parties`.
        driver: `vectorised`, or `loopback`, with a separate machine for each party.
        seed: repeats a simulation.

    Attributes:
        coef_: the coefficients.
        intercept_: the intercept; 0 without one.
        n_features_in_: number of columns.
        feature_names_in_: names of the columns, if all had names.
        result_: the whole fit: `summary()`, `guarantee`, released numbers. It holds
            sums over all parties and no rows, so fitted estimators may be pickled.
    """

    _family: ClassVar[Family]

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        digits: int | None = None,
        fit_intercept: bool = True,
        topology: GraphLike | str | None = None,
        law: LawName = "uniform",
        sigma: float | None = None,
        tolerate: int = 1,
        minimum_honest: int = 3,
        rules: Rules | None = None,
        n_parties: int = 4,
        driver: str = "vectorised",
        seed: int | None = None,
    ) -> None:
        self.ridge = ridge
        self.digits = digits
        self.fit_intercept = fit_intercept
        self.topology = topology
        self.law = law
        self.sigma = sigma
        self.tolerate = tolerate
        self.minimum_honest = minimum_honest
        self.rules = rules
        self.n_parties = n_parties
        self.driver = driver
        self.seed = seed

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        parties: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the pooled rows of all parties; only sums leave a party.

        Args:
            X: one row per observation.
            y: the responses.
            parties: one name for each row, text or a whole number: whose row it is.
                Without it all rows are one holder's, and nothing is to be hidden from
                anybody: they are dealt in stretches to `n_parties` parties, or to as
                many as there are rows, nobody is taken to collude, and the rules about
                rows and releases are off.
            sample_weight: by row; a row with weight 0 is left out.

        Raises:
            InvalidInputError: there is no such fit, or the parties' rules forbid it.
        """
        numeric = _base.is_regressor(self)
        design, response = _validation.validate_data(
            self, X, y, y_numeric=numeric, dtype=np.float64, ensure_min_samples=2
        )
        owners = (
            None if parties is None else _estimator_row_owners(parties, len(design))
        )
        weights = _estimator_sample_weights(sample_weight, design)
        counting = slice(None) if weights is None else weights > 0.0
        self.result_ = self._fitted(
            design[counting],
            self._encoded(response[counting]),
            owners=None if owners is None else owners[counting],
            weights=None if weights is None else weights[counting],
        )
        self._keep(self.result_.fit.coefficients)
        return self

    def _fitted(
        self,
        design: Design,
        response: PerRow,
        *,
        owners: Array[np.str_] | None,
        weights: PerRow | None,
    ) -> FitResult:
        if self.fit_intercept:
            design = np.column_stack([np.ones(len(design)), design])
        n_rows, alone = len(design), owners is None
        held = (
            _deal_estimator_rows(n_rows, self.n_parties)
            if owners is None
            else _estimator_rows_by_owner(owners)
        )
        weighed = weights if weights is None else {k: weights[held[k]] for k in held}
        digits = self.digits
        if alone and digits is None and self._family.has_digits:
            digits = MOST_DIGITS
        return fit_arrays(
            {name: (design[rows], response[rows]) for name, rows in held.items()},
            family=self._family,
            names=self._names(),
            intercept=0 if self.fit_intercept else None,
            weights=weighed,
            ridge=self.ridge,
            digits=digits,
            rules=ONE_HOLDER if alone else self.rules,
            **self._options(one_holder=alone),
        )

    def _options(self, *, one_holder: bool) -> SumOptions:
        return SumOptions(
            topology=self.topology,
            law=self.law,
            sigma=self.sigma,
            tolerate=0 if one_holder else self.tolerate,
            minimum_honest=1 if one_holder else self.minimum_honest,
            driver=self.driver,
            seed=self.seed,
        )

    def _names(self) -> list[str]:
        usual = [f"x{k}" for k in range(self.n_features_in_)]
        names = list(getattr(self, "feature_names_in_", usual))
        return [INTERCEPT, *names] if self.fit_intercept else names

    def _encoded(self, response: Array[Any]) -> PerRow:
        return np.asarray(response, dtype=np.float64)

    def _keep(self, coefficients: FloatArray) -> None:
        self.intercept_: Any = float(coefficients[0]) if self.fit_intercept else 0.0
        self.coef_ = coefficients[int(self.fit_intercept) :].copy()

    def _linear(self, rows: Any) -> PerRow:
        _validation.check_is_fitted(self)
        design = _validation.validate_data(self, rows, dtype=np.float64, reset=False)
        return np.asarray(design @ np.ravel(self.coef_) + self.intercept_)


class PrivateLinearRegression(_base.RegressorMixin, PrivateRegression):  # type: ignore[misc]
    """Least squares in one sum, as `LinearRegression`, or `Ridge(alpha=ridge)`.

    Unlike `LinearRegression` it refuses columns that depend on each other, and names
    them. Its parameters are those of `PrivateRegression`.
    """

    _family = GaussianFamily()

    def predict(self, X: Any) -> PerRow:  # noqa: N803
        """Return the expected responses."""
        return self._linear(X)


class _LogMeans(_base.RegressorMixin, PrivateRegression):  # type: ignore[misc]
    """Responses that are not below zero, with the logarithm as link."""

    _power: ClassVar[int]

    def predict(self, X: Any) -> PerRow:  # noqa: N803
        return self._family.inverse_link(self._linear(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return D^2, the share of the deviance that the model explains."""
        share = _metrics.d2_tweedie_score(
            y, self.predict(X), sample_weight=sample_weight, power=self._power
        )
        return float(share)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class PrivatePoissonRegressor(_LogMeans):
    """Poisson regression, as `PoissonRegressor(alpha=ridge / n)` on n rows.

    With weights n is their sum. Responses may be rates, such as claims per year with
    the years as weights; log-likelihoods are those of counts. Its parameters are those
    of `PrivateRegression`.
    """

    _family = Rates()
    _power = 1


class PrivateGammaRegressor(_LogMeans):
    """Gamma regression with the logarithm as link, for responses above zero.

    It is `GammaRegressor(alpha=ridge / n)` on n rows; with weights n is their sum. Its
    parameters are those of `PrivateRegression`.
    """

    _family = Gamma()
    _power = 2


class PrivateLogisticRegression(_base.ClassifierMixin, PrivateRegression):  # type: ignore[misc]
    """Logistic regression of two classes, as `LogisticRegression(C=1 / ridge)`.

    The default is scikit-learn's, C = 1. `ridge=0.0` is maximum likelihood, which has
    no fit where a column tells the classes apart without fail. Its other parameters
    are those of `PrivateRegression`.

    Attributes:
        classes_: both labels, in order. They are public; who has which is not.
    """

    _family = Binomial()

    # All parameters stay in the signature, where scikit-learn looks for them.
    __init__ = partialmethod(PrivateRegression.__init__, ridge=1.0)

    def decision_function(self, X: Any) -> PerRow:  # noqa: N803
        """Return the log odds of the second class."""
        return self._linear(X)

    def predict(self, X: Any) -> Array[Any]:  # noqa: N803
        """Return the class that is more likely."""
        second = self._linear(X) > 0.0
        return np.asarray(self.classes_[second.astype(np.intp)])

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the probabilities of both classes, one column for each."""
        odds = self._linear(X)
        return np.asarray(scipy.special.expit(np.column_stack([-odds, odds])))

    def predict_log_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the logarithms of the probabilities, exact for the least likely."""
        odds = self._linear(X)
        return np.asarray(scipy.special.log_expit(np.column_stack([-odds, odds])))

    def _encoded(self, response: Array[Any]) -> PerRow:
        """Return 0 and 1 for the first and second class."""
        _multiclass.check_classification_targets(response)
        self.classes_, encoded = np.unique(response, return_inverse=True)
        if len(self.classes_) != 2:
            # The first sentence is the one by which scikit-learn knows this refusal.
            raise InvalidInputError(
                "Only binary classification is supported. Rows that count must have "
                f"two classes in y, found {len(self.classes_)}; for more of them see "
                "sklearn.multiclass.OneVsRestClassifier",
                code="not-two-classes",
            )
        return encoded.astype(np.float64)

    def _keep(self, coefficients: FloatArray) -> None:
        super()._keep(coefficients)
        # scikit-learn's shapes: one row of coefficients for the one pair of classes.
        self.coef_ = self.coef_[None, :]
        self.intercept_ = np.array([self.intercept_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _estimator_sample_weights(given: Any, design: Design) -> PerRow | None:
    """Return one weight for each row, none below zero."""
    if given is None:
        return None
    weights: PerRow = _validation._check_sample_weight(  # noqa: SLF001 - no other
        given, design, dtype=np.float64, ensure_non_negative=True
    )
    return weights


def _estimator_row_owners(parties: Any, n_rows: int) -> Array[np.str_]:
    """Return each row's owner; refuse what is no name, such as a weight."""
    given = np.asarray(parties, dtype=object)
    if given.shape != (n_rows,):
        raise InvalidInputError(
            f"parties must hold one name for each of {n_rows} rows, "
            f"found shape {given.shape}",
            code="wrong-shape",
        )
    for row, name in enumerate(given):
        if not isinstance(name, str | int | np.integer):
            raise InvalidInputError(
                "parties must be names, text or whole numbers; row "
                f"{row} has {name!r} (weights go to sample_weight)",
                code="malformed-party-name",
            )
    return given.astype(str)


def _estimator_rows_by_owner(owners: Array[np.str_]) -> Held:
    """Return which rows each party has, in the order of names."""
    names, numbers = np.unique(owners, return_inverse=True)
    return {str(one): np.flatnonzero(numbers == k) for k, one in enumerate(names)}


def _deal_estimator_rows(n_rows: int, n_parties: int) -> Held:
    """Return a stretch of rows for each party, all about as long."""
    count = min(n_parties, n_rows)
    if count < 2:
        raise InvalidInputError(
            "a sum under masks takes at least two parties with a row each, found "
            f"n_parties {n_parties} and {n_rows} rows with a weight above zero",
            code="too-few-parties",
        )
    stretches = np.array_split(np.arange(n_rows), count)
    return {f"party {k}": rows for k, rows in enumerate(stretches, start=1)}
