import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from refusals import refused
from veilsum.numbers.limbs import (
    MOST_LIMBS,
    LimbModuli,
    add_wide_integers,
    combine_wide_integers,
    is_wide_integer_type,
    limb_type,
    limb_type_name,
    limbs_from_integers,
    limbs_of,
    limbs_to_integers,
    subtract_wide_integers,
    total_of_wide_integers,
)

widths = st.integers(1, MOST_LIMBS)
# Near the edges of every width carries run through all limbs.
edges = st.builds(
    lambda power, sign, off: sign * 2**power + off,
    st.integers(0, 64 * MOST_LIMBS),
    st.sampled_from([-1, 0, 1]),
    st.integers(-2, 2),
)
wholes = edges | st.integers(-(2**260), 2**260)


def objects(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def signed(value, bits):
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def all_signed(values, words):
    return [signed(value, 64 * words) for value in values]


@given(st.lists(wholes, max_size=8), widths)
def test_limbs_are_whole_numbers_modulo_their_width(values, words):
    numbers = limbs_from_integers(objects(values), words)
    assert numbers.dtype == limb_type(words)
    assert is_wide_integer_type(numbers)
    found = limbs_to_integers(numbers)
    assert found.tolist() == all_signed(values, words)
    assert all(type(one) is int for one in found.tolist())


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_words_with_and_without_a_sign_keep_their_values(dtype):
    ends = np.iinfo(dtype)
    values = np.array([ends.min, 0, 1, ends.max], dtype=dtype)
    assert limbs_to_integers(limbs_from_integers(values, 2)).tolist() == values.tolist()


@given(st.lists(st.tuples(wholes, wholes), max_size=8), widths)
def test_sums_and_differences_have_all_carries(pairs, words):
    one, other = (
        limbs_from_integers(objects([p[k] for p in pairs]), words) for k in (0, 1)
    )
    sums, gaps = (
        limbs_to_integers(add_wide_integers(one, other)),
        limbs_to_integers(subtract_wide_integers(one, other)),
    )
    assert sums.tolist() == all_signed([a + b for a, b in pairs], words)
    assert gaps.tolist() == all_signed([a - b for a, b in pairs], words)


@given(st.lists(st.tuples(wholes, wholes), min_size=1, max_size=20), widths)
def test_totals_have_all_carries(rows, words):
    numbers = limbs_from_integers(np.array(rows, dtype=object), words)
    wanted = [sum(row[k] for row in rows) for k in (0, 1)]
    assert limbs_to_integers(total_of_wide_integers(numbers)).tolist() == all_signed(
        wanted, words
    )


@given(st.lists(wholes, min_size=3, max_size=3), widths)
def test_a_sparse_matrix_of_small_numbers_combines_rows(values, words):
    matrix = sparse.csr_array(np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1], [2, 1, 1]]))
    rows = limbs_from_integers(objects(values)[:, None], words)
    wanted = [
        sum(a * b for a, b in zip(row, values, strict=True))
        for row in matrix.toarray().tolist()
    ]
    found = limbs_to_integers(combine_wide_integers(matrix, rows))[:, 0].tolist()
    assert found == all_signed(wanted, words)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64])
def test_other_arrays_are_added_as_numpy_does(dtype):
    rows = np.arange(6).reshape(3, 2).astype(dtype)
    matrix = sparse.csr_array(np.array([[1.0, 1.0, 1.0]]))
    for found in (
        total_of_wide_integers(rows),
        combine_wide_integers(matrix, rows)[0],
        add_wide_integers(rows[0], rows[1] + rows[2]),
    ):
        assert found.dtype == dtype
        assert found.tolist() == rows.sum(axis=0).tolist()
    assert subtract_wide_integers(rows[2], rows[0]).tolist() == [4, 4]


def test_numpy_refuses_to_add_limbs_without_carries():
    numbers = limbs_from_integers(objects([1, 2]), 2)
    with pytest.raises(TypeError):
        numbers + numbers
    with pytest.raises(TypeError):
        numbers.sum()


def test_limbs_broadcast_as_other_numbers_do():
    rows = limbs_from_integers(objects([1, -2, 3]), 2)
    table = add_wide_integers(rows[:, None], rows[None])
    assert limbs_to_integers(table).tolist() == [[2, -1, 4], [-1, -4, 1], [4, 1, 6]]


@pytest.mark.parametrize("words", [0, MOST_LIMBS + 1])
def test_a_number_has_few_limbs(words):
    with refused("limbs-out-of-range", mentions=("1", "4")):
        limb_type(words)


def test_types_have_one_name_everywhere():
    names = [limb_type_name(limb_type(words)) for words in (1, 2, 3, 4)]
    assert names == ["1 limbs", "2 limbs", "3 limbs", "4 limbs"]
    assert limb_type_name(np.dtype(np.int64)) == "int64"


# Fields


fields = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([1, 20, 63, 64, 65, 127, 128, 192])),
    min_size=1,
    max_size=4,
).map(lambda found: LimbModuli(tuple(found)))


def numbers_of(layout):
    return st.lists(wholes, min_size=layout.size, max_size=layout.size)


def bits_of(layout):
    return [bits for count, bits in layout.fields for _ in range(count)]


@given(fields.flatmap(lambda one: st.tuples(st.just(one), numbers_of(one))))
def test_every_field_has_a_modulus_of_its_own(drawn):
    layout, values = drawn
    encoded = layout.encode(objects(values))
    assert encoded.dtype == layout.dtype
    wanted = [signed(v, bits) for v, bits in zip(values, bits_of(layout), strict=True)]
    assert layout.decode(encoded).tolist() == wanted
    sums = add_wide_integers(encoded, encoded)
    doubled = [signed(2 * v, b) for v, b in zip(values, bits_of(layout), strict=True)]
    assert layout.decode(sums).tolist() == doubled
    assert layout.decode(layout.residues(sums)).tolist() == doubled


@given(fields.flatmap(lambda one: st.tuples(st.just(one), numbers_of(one))))
def test_fields_travel_as_the_bytes_of_their_residues(drawn):
    layout, values = drawn
    packed = layout.pack(layout.encode(objects(values)))
    wanted = b"".join(
        (value % 2**bits).to_bytes(8 * -(-bits // 64), "little")
        for value, bits in zip(values, bits_of(layout), strict=True)
    )
    assert packed.astype("<u8").tobytes() == wanted
    assert len(packed) == layout.length
    back = layout.unpack(np.frombuffer(wanted, dtype="<u8"))
    assert back.tobytes() == layout.encode(objects(values)).tobytes()


@pytest.mark.parametrize("bits", [1, 20, 63, 65, 127])
def test_a_residue_that_is_not_below_its_modulus_is_refused(bits):
    layout = LimbModuli(((1, 64), (2, bits)))
    limbs = layout.pack(layout.encode(objects([2**64 - 1, 2**bits - 1, 2**bits - 1])))
    layout.unpack(limbs)
    limbs[-1] += np.uint64(1)
    with refused("residues-too-large"):
        layout.unpack(limbs)


def test_more_or_fewer_limbs_than_a_vector_has_are_refused():
    layout = LimbModuli(((1, 64), (2, 128)))
    for length in (0, 4, 6):
        with refused("limb-count-differs", mentions=("5", length)):
            layout.unpack(np.zeros(length, dtype=np.uint64))


def test_limbs_that_arrive_are_not_copied():
    layout = LimbModuli(((50, 128),))
    raw = bytes(range(16)) * 50
    numbers = layout.unpack(np.frombuffer(raw, dtype=np.uint64))
    assert np.shares_memory(limbs_of(numbers), np.frombuffer(raw, dtype=np.uint8))


@pytest.mark.parametrize("field", [(0, 64), (1, 0), (1, 257), (-1, 64)])
def test_fields_without_numbers_or_bits_are_refused(field):
    with refused("malformed-field"):
        LimbModuli((field,))
