"""What is asked of the parties in each round, and how the answers are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from veilsum.costs.bases import smat
from veilsum.errors import InvalidInputError
from veilsum.models.rows import Gram, Sums
from veilsum.numbers.arrays import FloatArray, Vector

# Beside the svec of a matrix and a vector with one number for each column.
N_FIRST = 5
N_ROUND = 6


@dataclass(frozen=True)
class FirstStatistics:
    """The sums of the first round.

    Attributes:
        information: X'VX with the working weights V of the starting means.
        cross: X'Vz with the working responses z, offsets taken off.
        n_rows: the number of rows.
        weight_sum: the sum of the weights; of ones without weights.
        response_sum: the sum of w y.
        offset_sum: the sum of w times the offset.
        saturated: the log-likelihood at mu = y; 0 in a family that closes.
    """

    information: Gram
    cross: Vector
    n_rows: float
    weight_sum: float
    response_sum: float
    offset_sum: float
    saturated: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + p + 5."""
        return n_columns * (n_columns + 1) // 2 + n_columns + N_FIRST

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> FirstStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, cross, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, cross, *numbers.tolist())


@dataclass(frozen=True)
class RoundStatistics:
    """The sums of a later round, at the point that all parties know.

    Attributes:
        information: X'VX, the observed information times the dispersion.
        score: the slope of the log-likelihood times the dispersion.
        deviance: the sum of w d(y, mu).
        pearson: the sum of w (y - mu)^2 / variance.
        outside: rows whose eta no mean has; all else takes them at the edge.
        null_score: the score of the null model.
        null_information: its information.
        null_deviance: its deviance.
    """

    information: Gram
    score: Vector
    deviance: float
    pearson: float
    outside: float
    null_score: float
    null_information: float
    null_deviance: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + p + 6."""
        return n_columns * (n_columns + 1) // 2 + n_columns + N_ROUND

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> RoundStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, score, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, score, *numbers.tolist())


@dataclass(frozen=True)
class ClosingStatistics:
    """The sums of the closing round, at the answer.

    Attributes:
        information: Fisher's expected information times the dispersion.
        saturated: the log-likelihood at mu = y.
    """

    information: Gram
    saturated: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + 1."""
        return n_columns * (n_columns + 1) // 2 + 1

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> ClosingStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        _check_size(vector, n_columns, cls.size(n_columns))
        return cls(smat(vector[:-1], n_columns), float(vector[-1]))


Stage = Literal["first", "round", "closing"]


def statistics_size(stage: Stage, n_columns: int) -> int:
    """Return how many numbers a party is asked for."""
    sizes = {
        "first": FirstStatistics.size,
        "round": RoundStatistics.size,
        "closing": ClosingStatistics.size,
    }
    return sizes[stage](n_columns)


@dataclass(frozen=True)
class Request:
    """What all parties are asked for next: public numbers and what to do with them.

    Attributes:
        stage: which statistics.
        point: nothing at first; in a round the coefficients and the null model's
            intercept; when closing the coefficients and the dispersion.
    """

    stage: Stage
    point: Vector


def _check_size(vector: Sums, n_columns: int, expected: int) -> None:
    if vector.shape != (expected,):
        raise InvalidInputError(
            f"{n_columns} columns have {expected} statistics in this round, "
            f"found shape {vector.shape}"
        )


def _split(
    vector: Sums, n_columns: int, expected: int
) -> tuple[Gram, Vector, FloatArray]:
    _check_size(vector, n_columns, expected)
    triangle = n_columns * (n_columns + 1) // 2
    matrix, along, numbers = np.split(vector, [triangle, triangle + n_columns])
    return smat(matrix, n_columns), along, numbers
