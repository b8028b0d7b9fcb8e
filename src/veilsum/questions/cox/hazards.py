"""Tables of hazard ratios, shared by both Cox regressions."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from veilsum.fits.fitted import F, Fitted
from veilsum.models.inference import Inference, coefficient_table
from veilsum.showing import Rendering, ShownTable, shown_number
from veilsum.tables.frames import load_pandas


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HazardResult(Fitted[F]):
    @property
    def n_events(self) -> int:
        raise NotImplementedError

    def ratio_name(self) -> str:
        """Return the name of exp(coefficient)."""
        return "hazard ratio"

    @property
    def size_sentence(self) -> str:
        """Numbers of rows and events, in R's wording."""
        left = f" ({self.dropped} rows left out)" if self.dropped else ""
        return f"n = {self.count}, number of events = {self.n_events}{left}"

    def summary(self, *, level: float = 0.95) -> str:
        return self.answered(level).text()

    def answered(self, level: float = 0.95) -> Rendering:
        raise NotImplementedError

    def hazard_ratios(self, level: float = 0.95) -> Any:
        """Return exp of coefficients, and of the ends of their intervals."""
        low, high = self.inference.confidence_intervals(level).T
        columns = {
            "hazard ratio": self.inference.coefficients,
            "low": low,
            "high": high,
        }
        made = {name: np.exp(one) for name, one in columns.items()}
        return load_pandas().DataFrame(made, index=list(self.inference.names))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of every run, and the table."""
        lines = [vars(one) for one in coefficient_table(self.inference)]
        return {
            **super().to_dict(),
            "table": [
                {**one, "hazard_ratio": exp(one["coefficient"])} for one in lines
            ],
        }


def hazard_tables(fit: Inference, level: float) -> tuple[ShownTable, ShownTable]:
    """Return two tables as R has them: coefficients, and hazard ratios."""
    lines = coefficient_table(fit, level)
    percent = f"{level:g}".removeprefix("0")
    first = [
        {
            "": one.name,
            "coef": shown_number(one.coefficient),
            "exp(coef)": shown_number(exp(one.coefficient)),
            "se(coef)": shown_number(one.standard_error),
            "z": shown_number(one.statistic, 4),
            "Pr(>|z|)": shown_number(one.p_value, 3),
        }
        for one in lines
    ]
    second = [
        {
            "": one.name,
            "exp(coef)": shown_number(exp(one.coefficient)),
            "exp(-coef)": shown_number(exp(-one.coefficient)),
            f"lower {percent}": shown_number(exp(one.low)),
            f"upper {percent}": shown_number(exp(one.high)),
        }
        for one in lines
    ]
    return (
        ShownTable([*first[0]], first, align="<....."),
        ShownTable([*second[0]], second, align="<...."),
    )
