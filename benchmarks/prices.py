"""Price 45 ordinary analyses of a registry, and attacks: bits and influence.

    python benchmarks/prices.py                 # two tables, in Markdown
    python benchmarks/prices.py --seed 3        # of another registry

Sums are those of the pooled rows, and released bits those under uniform masks: they
follow from layouts alone. Tables of counts are exempt if the first sum, of parties with
enough rows in each cell, lets their cells be shown. The influence is the largest of any
person at any site, on all sums of a question whose contributions of rows are known.
Nothing is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clocks import sized
from veilsum.disclosure.influence import influence_attack_success
from veilsum.errors import VeilsumError
from veilsum.sums.own_influence import (
    AskedTable,
    OwnInfluence,
    own_influence_on_sums,
)
from veilsum.sums.presence import (
    PresenceScreenedRecipe,
    places_with_rows,
    presence_screened_recipe,
)
from veilsum.sums.prices import ReleasePrice
from veilsum.sums.recipes import release_of_residues
from veilsum.sums.table_job import SchemaTableJob
from veilsum.tables.rules import Rules

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from plans.registry import ANALYSES, MISSING, Analysis, attacks, tables

LIMITS = (1 / 3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
TOLERATED = 1


@dataclass(frozen=True)
class Priced:
    """Prices of one or several questions to the same tables."""

    rows: int
    prices: tuple[ReleasePrice, ...]
    influence: OwnInfluence

    @property
    def cells(self) -> list[str]:
        """Released bits, and the account with the largest share spent."""
        first, *more = self.prices
        accounts = sum((one.accounts for one in more), first.accounts)
        laws = {k: law for one in self.prices for k, law in one.laws.items()}
        # Another question may have averages of the same columns.
        published = () if more else first.published
        whole = ReleasePrice(accounts, first.rows, laws, published)
        charged = whole.tightest
        if charged is None:
            return [f"{accounts.total:,.0f}", "exempt", "-", "-"]
        name = " x ".join(charged.columns) + (
            " given others" if charged.given_others else ""
        )
        return [
            f"{accounts.total:,.0f}",
            name,
            f"{charged.spent:,.0f}",
            f"{charged.usable:,.0f}",
        ]

    @property
    def largest(self) -> float | None:
        """The largest influence; None if no sum is covered."""
        return self.influence.largest if self.influence.covered else None


def published(
    job: SchemaTableJob[Any], own: Mapping[str, Any]
) -> tuple[tuple[str, ...], ...]:
    """Return column sets whose tables may be published, as the first sum decides."""
    rules = Rules()
    recipe = presence_screened_recipe(
        job.recipe(),
        job.groups,
        TOLERATED,
        enough=rules.minimum_count,
        parties=len(own),
        targets=job.targets,
    )
    if not isinstance(recipe, PresenceScreenedRecipe):
        return ()
    counts = [
        places_with_rows(recipe.groups, partial(job.look, one), recipe.enough)
        for one in own.values()
    ]
    try:
        recipe.check(np.sum(counts, axis=0))
    except VeilsumError:
        return ()
    return job.published(rules)


def priced(
    questions: Sequence[Analysis], frames: Mapping[str, pd.DataFrame]
) -> Priced | None:
    """Return the prices; None if the pooled rows have no answer."""
    asked = dict[str, list[AskedTable]]()
    prices, rows = list[ReleasePrice](), 0
    for question in questions:
        job = question.job()
        checked = {site: job.schema.check(site, one) for site, one in frames.items()}
        own = {site: job.bring(one) for site, one in checked.items()}
        recipe, sums = job.recipe(), list[Any]()
        try:
            while (request := recipe.request(sums)) is not None:
                parts = [job.answer(one, request) for one in own.values()]
                sums.append(np.sum(parts, axis=0))
        except VeilsumError:
            if not sums:
                return None  # else it ends there, and all sums are out
        before = [sums[:k] for k in range(len(sums))]
        releases = [release_of_residues(recipe, one) for one in before]
        requests = [recipe.request(one) for one in before]
        rows = sum(map(job.n_rows, own.values()))
        dropped = sum(one.n_dropped for one in checked.values())
        honest = rows * (len(frames) - TOLERATED) // len(frames)
        price = ReleasePrice.from_releases(
            releases, job.schema, rows + dropped, honest, published(job, own)
        )
        if price is None:
            return None
        prices.append(price)
        for site, one in checked.items():
            asked.setdefault(site, []).append(AskedTable(job, one, requests))
    found = [own_influence_on_sums(few, rows) for few in asked.values()]
    return Priced(rows, tuple(prices), max(found, key=lambda one: one.largest))


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value > 0.99 else f"{value:.2f}"


def line(cells: Sequence[object]) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    analyses = sized(ANALYSES, (ANALYSES[2], ANALYSES[22]))
    shares = sized(MISSING, MISSING[:1])
    seed = parser.parse_args().seed
    head = ["Analysis", "bits", "charged to", "spent", "usable", "covered"]
    line([*head, *(f"l, {share:.0%} missing" for share in shares)])
    line(["---"] * (len(head) + len(shares)))
    largest = dict[str, float | None]()
    for one in analyses:
        found = [priced([one], tables(share, seed)) for share in shares]
        if (first := found[0]) is None:
            line([one.name, *["-"] * (len(head) + len(shares) - 1)])
            continue
        covered = f"{first.influence.covered} of {first.influence.sums}"
        influences = [None if each is None else each.largest for each in found]
        line([one.name, *first.cells, covered, *map(shown, influences)])
        largest[one.name] = influences[0]
    print()
    line(["Attack", *head[1:], "l", "right"])
    line(["---"] * (len(head) + 2))
    found_attacks = dict[str, float]()
    for name, questions, frames in sized(attacks(seed), attacks(seed)[:1]):
        attack = priced(questions, frames)
        if attack is None:
            line([name, *["-"] * 7])
            continue
        covered = f"{attack.influence.covered} of {attack.influence.sums}"
        value = attack.largest
        right = "-" if value is None else f"{influence_attack_success(value):.1%}"
        line([name, *attack.cells, covered, shown(value), right])
        if value is not None:
            found_attacks[name] = value
    print()
    known = [one for one in largest.values() if one is not None]
    line(["Limit", "analyses that pass", "attacks that pass", "right at the limit"])
    line(["---"] * 4)
    for limit in LIMITS:
        passing = sum(one <= limit for one in known)
        still = sum(one <= limit for one in found_attacks.values())
        cells = f"{passing} of {len(known)}", f"{still} of {len(found_attacks)}"
        line([f"{limit:.2f}", *cells, f"{influence_attack_success(limit):.1%}"])


if __name__ == "__main__":
    main()
