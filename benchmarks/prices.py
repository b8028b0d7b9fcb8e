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
from dataclasses import dataclass, replace
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

# Of the influence on first sums, the only ones that a rule is about.
LIMITS = (0.8, 0.9, 0.95, 0.99, 0.9975, 0.999, 0.9999)
TOLERATED = 1


@dataclass(frozen=True)
class Priced:
    """Prices of one or several questions to the same tables."""

    rows: int
    prices: tuple[ReleasePrice, ...]
    influence: OwnInfluence
    first: OwnInfluence

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
        """The largest influence on all sums; None if no sum is covered."""
        return self.influence.largest if self.influence.covered else None

    @property
    def largest_first(self) -> float | None:
        """The largest influence on the first sums; None if none is covered."""
        return self.first.largest if self.first.covered else None


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
    every = [own_influence_on_sums(few, rows) for few in asked.values()]
    # Each question by itself, as parties look at it.
    first = [
        own_influence_on_sums([replace(one, requests=one.requests[:1])], rows)
        for few in asked.values()
        for one in few
    ]
    most, most_first = (max(k, key=lambda one: one.largest) for k in (every, first))
    return Priced(rows, tuple(prices), most, most_first)


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value > 0.99 else f"{value:.2f}"


def both(found: Priced | None) -> str:
    """Return the influence on the first sum, and on all where that is another one."""
    if found is None:
        return "-"
    first, every = shown(found.largest_first), shown(found.largest)
    return first if first == every else f"{first} / {every}"


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
    passing = dict[str, list[float]]()
    for one in analyses:
        found = [priced([one], tables(share, seed)) for share in shares]
        if (first := found[0]) is None:
            line([one.name, *["-"] * (len(head) + len(shares) - 1)])
            continue
        covered = f"{first.influence.covered} of {first.influence.sums}"
        line([one.name, *first.cells, covered, *map(both, found)])
        firsts = [None if each is None else each.largest_first for each in found]
        passing[one.name] = [each or 0.0 for each in firsts]
    print()
    line(["Attack", *head[1:], "l", "right"])
    line(["---"] * (len(head) + 2))
    attacking = list[float]()
    for name, questions, frames in sized(attacks(seed), attacks(seed)[:1]):
        attack = priced(questions, frames)
        if attack is None:
            line([name, *["-"] * 7])
            continue
        covered = f"{attack.influence.covered} of {attack.influence.sums}"
        value = attack.largest
        right = "-" if value is None else f"{influence_attack_success(value):.1%}"
        line([name, *attack.cells, covered, both(attack), right])
        attacking.append(attack.largest_first or 0.0)
    print()
    by_share = [f"{share:.0%} missing" for share in shares]
    line(
        ["Limit of the first sum", *by_share, "attacks that pass", "right at the limit"]
    )
    line(["---"] * (3 + len(shares)))
    for limit in LIMITS:
        each = [
            sum(some[k] <= limit for some in passing.values())
            for k in range(len(shares))
        ]
        still = f"{sum(one <= limit for one in attacking)} of {len(attacking)}"
        right = f"{influence_attack_success(limit):.1%}"
        line([f"{limit:g}", *each, still, right])


if __name__ == "__main__":
    main()
