import numpy as np
import pytest

from refusals import refused
from veilsum.numbers.arrays import (
    as_float_rows,
    as_float_vector,
    as_floats,
    listed_names,
)


def test_floats_are_a_read_only_copy_of_the_caller_s_numbers():
    mine = np.array([1.0, 2.0])
    theirs = as_floats(mine, what="numbers")
    mine[0] = 9.0
    assert theirs.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        theirs[0] = 5.0


@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [-np.inf, 1.0]])
def test_a_number_that_is_not_finite_is_refused_by_the_name_of_its_array(bad):
    with refused("not-finite"):
        as_floats(bad, what="the start")


@pytest.mark.parametrize("bad", [["one"], [[1.0], [1.0, 2.0]]])
def test_what_is_not_numbers_is_refused_by_the_name_of_its_array(bad):
    with refused("not-numbers"):
        as_floats(bad, what="the start")


def test_one_number_stands_for_all_coordinates_of_a_vector():
    assert as_float_vector(2.0, dim=3, what="bounds").tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_a_vector_of_the_wrong_shape_is_refused_with_the_shape_found(bad):
    with refused("wrong-shape", mentions=("2",)):
        as_float_vector(bad, dim=2, what="bounds")


def test_a_flat_list_is_one_coefficient_for_each_party():
    assert as_float_rows([1.0, 2.0], n_parties=2, what="A").tolist() == [[1.0], [2.0]]
    wide = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert as_float_rows(wide, n_parties=2, what="A").tolist() == wide


@pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0, 3.0], [[1.0]] * 3, [[[1.0]]] * 2])
def test_rows_are_as_many_as_parties(bad):
    with refused("wrong-shape", mentions=("2 parties",)):
        as_float_rows(bad, n_parties=2, what="A")


def test_a_long_list_of_names_is_cut_and_says_by_how_many():
    names = [str(i) for i in range(11)]
    assert listed_names(names[:3]) == "0, 1, 2"
    assert listed_names(names) == "0, 1, 2, 3, 4, 5, 6, 7 and 3 more"
