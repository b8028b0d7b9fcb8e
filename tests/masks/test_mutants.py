"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

from fractions import Fraction

import numpy as np
import pytest

from veilsum.graphs.topology import Topology
from veilsum.masks import masking
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import Masks
from veilsum.masks.masking import CounterStreams, masks_in_pieces
from veilsum.masks.streams import SeededStream
from veilsum.numbers.limbs import limb_type
from veilsum.numbers.units import UnitCounts, few_decimals_unit

GRAPH = Topology.family("cycles:400:6")


def test_few_links_are_drawn_one_by_one(monkeypatch):
    pytest.importorskip("numba")
    one_by_one, share = [], CounterStreams.share

    def counted(streams, *args, **options):
        one_by_one.append(options["sender"])
        return share(streams, *args, **options)

    monkeypatch.setattr(CounterStreams, "share", counted)
    law = Masks("lattice", 1.0, 30).on(GRAPH)
    masks_in_pieces(GRAPH, law, CounterStreams(7), size=4)
    assert 0 < len(one_by_one) < 2 * 20
    monkeypatch.setattr(masking, "compiled_or_plain", lambda _: None)
    one_by_one.clear()
    masks_in_pieces(GRAPH, law, CounterStreams(7), size=4)
    assert len(one_by_one) == 2 * GRAPH.n_edges


@pytest.mark.parametrize(("bits", "kind"), [(64, np.uint64), (65, limb_type(2))])
def test_residues_of_one_word_are_machine_words(bits, kind):
    counts = UnitCounts((Fraction(1),) * 3, bits)
    law = Masks("uniform").on(GRAPH).for_sums(GRAPH, Masks("uniform"), counts)
    drawn = law.draw(SeededStream(np.random.default_rng(0)), 3)
    assert drawn.dtype == law.dtype == np.dtype(kind)


@pytest.mark.parametrize("values", [[], [np.pi], [0.1, np.e]])
def test_values_without_a_decimal_unit_have_none(values):
    assert few_decimals_unit(np.array(values)) is None


def test_a_deviation_is_that_of_a_link_of_weight_one():
    assert FixedPointGrid(10).deviation(1.0) == 2**10
    assert FixedPointGrid(10).deviation(1.0, 4.0) == 2**11
