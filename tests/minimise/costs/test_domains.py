from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import optimize

from cases import each
from refusals import refused
from strategies import few, finite_arrays
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.minimise.costs import domains
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace

TRIANGLE = HalfSpaces([[-1.0, 0.0], [0.0, -1.0], [1.0, 2.0]], [0.0, 0.0, 4.0])
# A thin wedge with normals of very different lengths.
WEDGE = HalfSpaces(
    [[1e3, 1.0, 0.0], [-1e-3, 1e-5, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, -1.0]],
    [1e3, 1e-3, 2.0, 5.0],
)
DOMAINS = {
    "box": Box([-1.0, 0.0, -3.0], [1.0, 0.0, 5.0], dim=3),
    "ball": Ball([1.0, -2.0], 1.5, dim=2),
    "ball on a line": Ball(0.5, 2.0, dim=1),
    "simplex": Simplex(4),
    "large simplex": Simplex(3, total=7.5),
    "simplex of one": Simplex(1),
    "triangle": TRIANGLE,
    "wedge": WEDGE,
    "whole space": WholeSpace(3),
}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def inside_points(domain, count=40):
    """Points of the set, found without projecting: rejection or construction."""
    stream = np.random.default_rng(20)
    if isinstance(domain, Box):
        return stream.uniform(domain.lower, domain.upper, (count, domain.dim))
    if isinstance(domain, Ball):
        away = stream.standard_normal((count, domain.dim))
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        reach = domain.radius * stream.uniform(0, 1, (count, 1))
        return domain.centre + reach * away
    if isinstance(domain, Simplex):
        return domain.total * stream.dirichlet(np.ones(domain.dim), count)
    wide = stream.uniform(-6, 6, (200 * count, domain.dim))
    if isinstance(domain, HalfSpaces):
        wide = wide[(wide @ domain.normals.T <= domain.offsets).all(axis=1)]
    return wide[:count]


def test_there_are_inside_points_of_every_domain_to_compare_with():
    assert all(len(inside_points(domain)) >= 10 for domain in DOMAINS.values())


@every_domain
@few
@given(data=st.data())
def test_a_projection_is_where_the_variational_inequality_holds(domain, data):
    """p = P(x) iff p is in X and (x - p)'(y - p) <= 0 for every y in X."""
    x = data.draw(finite_arrays((domain.dim,), most=50.0))
    p = domain.project(x)
    slack = (inside_points(domain) - p) @ (x - p)
    assert slack.max() <= 1e-9 * (1 + x @ x)


def distance_outside(domain, x):
    """How far x breaks the set's definition; zero inside."""
    if isinstance(domain, Box):
        return float(np.maximum(domain.lower - x, x - domain.upper).max())
    if isinstance(domain, Ball):
        return float(np.linalg.norm(x - domain.centre) - domain.radius)
    if isinstance(domain, Simplex):
        return max(float(-x.min()), abs(float(x.sum()) - domain.total))
    if isinstance(domain, HalfSpaces):
        length = np.linalg.norm(domain.normals, axis=1)
        return float(((domain.normals @ x - domain.offsets) / length).max())
    return 0.0


@every_domain
@few
@given(data=st.data())
def test_a_projection_lands_in_the_set(domain, data):
    x = data.draw(finite_arrays((domain.dim,), most=1e4))
    assert distance_outside(domain, domain.project(x)) <= 1e-9 * (1 + abs(x).max())


@every_domain
def test_a_point_of_the_set_is_its_own_projection(domain):
    inside = inside_points(domain)
    np.testing.assert_allclose(domain.project(inside), inside, atol=1e-12)


@every_domain
@few
@given(data=st.data())
def test_projecting_twice_is_projecting_once(domain, data):
    x = data.draw(finite_arrays((domain.dim,), most=50.0))
    once = domain.project(x)
    np.testing.assert_allclose(domain.project(once), once, atol=1e-9)


@every_domain
@few
@given(data=st.data())
def test_projecting_moves_no_two_points_apart(domain, data):
    x = data.draw(finite_arrays((domain.dim,), most=50.0))
    y = data.draw(finite_arrays((domain.dim,), most=50.0))
    apart = np.linalg.norm(domain.project(x) - domain.project(y))
    assert apart <= np.linalg.norm(x - y) + 1e-8


@every_domain
@few
@given(data=st.data())
def test_rows_are_projected_one_by_one(domain, data):
    x = data.draw(finite_arrays((3, domain.dim), most=50.0))
    before = x.copy()
    together = domain.project(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(together, [domain.project(row) for row in x])


@each(
    ("domain", "x", "expected"),
    [
        (Box(-1.0, 1.0, dim=2), [3.0, 0.5], [1.0, 0.5]),
        (Ball(0.0, 5.0, dim=2), [6.0, 8.0], [3.0, 4.0]),
        (Ball([1.0, 1.0], 1.0, dim=2), [1.0, 4.0], [1.0, 2.0]),
        (Simplex(2), [0.0, 0.0], [0.5, 0.5]),
        (Simplex(3), [5.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        (Simplex(3, total=6.0), [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
        (TRIANGLE, [-3.0, -3.0], [0.0, 0.0]),
        (TRIANGLE, [3.0, 3.0], [2.0, 1.0]),
    ],
)
def test_simple_points_project_where_geometry_says(domain, x, expected):
    found = domain.project(np.array(x))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_half_spaces_that_meet_at_a_corner_are_not_empty():
    """The corner is found up to rounding: no float64 is nearer."""
    domain = HalfSpaces(np.array([[0.0, -1.0], [-1.0, -1.0]]), np.array([1.125, 0.125]))
    corner = domain.project(np.array([-1.0, -7.125]))
    np.testing.assert_allclose(corner, [1.0, -1.125], rtol=1e-12)


def nearest_on_simplex(x, total):
    """Try every support: on it, spread the excess evenly; keep the nearest feasible.

    In rationals: neighbouring supports can be equally far to sixteen digits.
    """
    exact = [Fraction(value) for value in x.tolist()]
    candidates = []
    for size in range(1, len(x) + 1):
        for support in combinations(range(len(x)), size):
            rest = (Fraction(total) - sum(exact[k] for k in support)) / size
            y = [v + rest if k in support else 0 for k, v in enumerate(exact)]
            if min(y) >= 0:
                gap = sum((v - w) ** 2 for v, w in zip(exact, y, strict=True))
                candidates.append((gap, y))
    return [float(value) for value in min(candidates)[1]]


@few
@given(st.data(), st.integers(1, 5), st.floats(0.1, 10.0))
def test_the_simplex_projection_is_the_best_over_all_supports(data, dim, total):
    x = data.draw(finite_arrays((dim,)))
    found = Simplex(dim, total=total).project(x)
    np.testing.assert_allclose(found, nearest_on_simplex(x, total), atol=1e-10)


@each("far", [1e8, 1e17, 1e100])
def test_a_point_far_from_the_simplex_still_lands_on_it(far):
    """Masks with a large sigma throw iterates this far."""
    found = Simplex(3).project(np.array([far, 0.0, -far]))
    assert found.tolist() == [1.0, 0.0, 0.0]


def nearest_by_slsqp(domain, x, start):
    """Return the nearest feasible point by a general-purpose optimiser."""
    found = optimize.minimize(
        lambda y: 0.5 * ((y - x) ** 2).sum(),
        start,
        jac=lambda y: y - x,
        constraints=[
            {
                "type": "ineq",
                "fun": lambda y: domain.offsets - domain.normals @ y,
                "jac": lambda y: -domain.normals,
            }
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return found.x if found.success else None


@few
@given(st.data(), st.integers(1, 4), st.integers(1, 6))
def test_the_half_space_projection_is_a_quadratic_program_s(data, dim, count):
    # On eighths: planes a billionth apart in direction meet nowhere in particular, and
    # a region that is one point may be empty once its offsets are rounded.
    normals = np.rint(8 * data.draw(finite_arrays((count, dim), most=3.0))) / 8
    assume((np.linalg.norm(normals, axis=1) > 0.1).all())
    inside = np.rint(8 * data.draw(finite_arrays((dim,), most=3.0))) / 8
    room = data.draw(finite_arrays((count,), most=2.0))
    domain = HalfSpaces(normals, normals @ inside + abs(room))
    x = data.draw(finite_arrays((dim,), most=20.0))
    expected = nearest_by_slsqp(domain, x, inside)
    assume(expected is not None)
    np.testing.assert_allclose(domain.project(x), expected, atol=1e-5)


@given(st.data(), st.integers(1, 4))
def test_half_spaces_that_make_a_box_project_like_the_box(data, dim):
    low = data.draw(finite_arrays((dim,), most=5.0))
    high = low + abs(data.draw(finite_arrays((dim,), most=5.0)))
    box = Box(low, high, dim=dim)
    normals = np.vstack([np.eye(dim), -np.eye(dim)])
    same = HalfSpaces(normals, np.concatenate([high, -low]))
    x = data.draw(finite_arrays((dim,), most=50.0))
    np.testing.assert_allclose(same.project(x), box.project(x), atol=1e-9)


def test_a_box_without_room_in_some_directions():
    """Two half-spaces that touch: their multipliers are large and cancel."""
    low, high = np.array([0.0, 0.0, 1.5, 0.0]), np.array([0.0, 0.0, 3.0, 0.0])
    normals = np.vstack([np.eye(4), -np.eye(4)])
    domain = HalfSpaces(normals, np.concatenate([high, -low]))
    x = np.array([0.0, 0.34960938, 18.125, 1.0])
    np.testing.assert_allclose(domain.project(x), [0.0, 0.0, 3.0, 0.0], atol=1e-12)


def faces(low, high):
    """A box as half-spaces."""
    normals = np.vstack([np.eye(len(low)), -np.eye(len(low))])
    return normals, np.concatenate([high, -low])


def test_the_first_candidate_that_is_feasible_need_not_be_the_nearest():
    """Least distances alone answered (1, 3, 3, 3): all conditions but one held."""
    low, high = np.array([0.0, 3.0, 3.0, 3.0]), np.array([1.0, 3.0, 4.0, 4.0])
    domain = HalfSpaces(*faces(low, high))
    x = np.array([0.0, 2.0, -37.0, 0.0])
    np.testing.assert_allclose(domain.project(x), [0.0, 3.0, 3.0, 3.0], atol=1e-12)
    assert domain._is_nearest(np.array([0.0, 3.0, 3.0, 3.0]), x)
    assert not domain._is_nearest(np.array([1.0, 3.0, 3.0, 3.0]), x)
    assert not domain._is_nearest(np.array([0.0, 2.9, 3.0, 3.0]), x)


def far_point(stream, dim):
    point = stream.integers(-5, 6, dim) * 10.0 ** stream.integers(0, 3, dim)
    return point + stream.normal(size=dim) * stream.integers(0, 2)


def thin_box(stream):
    """Some widths are zero; the nearest point is known by clipping."""
    dim = stream.integers(2, 6)
    low = stream.integers(-3, 4, dim).astype(float)
    high = low + stream.integers(0, 2, dim) * stream.integers(0, 3, dim)
    x = far_point(stream, dim)
    return *faces(low, high), x, x.clip(low, high)


def touching(stream):
    """Half-spaces through one point, some with their opposites: often no interior."""
    dim, count = stream.integers(2, 5), stream.integers(1, 5)
    normals = stream.integers(-2, 3, (count, dim)).astype(float)
    normals = np.vstack([normals, -normals[: stream.integers(0, count + 1)]])
    room = stream.integers(0, 3, len(normals)) * (stream.random(len(normals)) < 0.4)
    offsets = normals @ stream.integers(-3, 4, dim) + room
    x = far_point(stream, dim)
    return normals, offsets, x, nearest_of_all_faces(normals, offsets, x)


def slivers(stream):
    """Pairs of planes a trillionth to a tenth apart, in any direction."""
    dim, count = stream.integers(2, 5), stream.integers(1, 4)
    normals = stream.normal(size=(count, dim))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    normals = np.vstack([normals, -normals])
    room = 10.0 ** stream.integers(-12, 0) * stream.random(2 * count)
    offsets = normals @ stream.normal(size=dim) + room
    x = far_point(stream, dim)
    return normals, offsets, x, nearest_of_all_faces(normals, offsets, x)


def nearest_of_all_faces(normals, offsets, x):
    """Try every set of independent planes: the one whose multipliers push is right."""
    if (normals @ x <= offsets + 1e-12).all():
        return x
    for size in range(1, len(x) + 1):
        for planes in map(list, combinations(range(len(normals)), size)):
            gram = normals[planes] @ normals[planes].T
            if abs(np.linalg.det(gram)) < 1e-9:
                continue
            push = np.linalg.solve(gram, normals[planes] @ x - offsets[planes])
            y = x - push @ normals[planes]
            if (push >= -1e-9).all() and (normals @ y <= offsets + 1e-8).all():
                return y
    raise AssertionError("a set with a point has a nearest one")


DEGENERATE = pytest.mark.parametrize("make", [thin_box, touching, slivers])


def wrong_projections(make, count):
    """Count the sets whose projection is beyond a millionth of the distances."""
    stream, wrong = np.random.default_rng(35), 0
    for _ in range(count):
        normals, offsets, x, expected = make(stream)
        gap = np.abs(HalfSpaces(normals, offsets).project(x) - expected).max()
        wrong += gap > 1e-6 * (1 + np.abs(x).max())
    return wrong


@DEGENERATE
def test_sets_without_interior_project_where_all_faces_say(make):
    assert wrong_projections(make, 120) == 0


@pytest.mark.slow
@DEGENERATE
def test_tens_of_thousands_of_sets_without_interior(make):
    assert wrong_projections(make, 20_000) == 0


def test_dykstra_finds_what_least_distances_miss(monkeypatch):
    """The first method taken out; the second one's answers are proved as well."""
    monkeypatch.setattr(domains, "_project_by_nnls", lambda *_: iter(()))
    assert wrong_projections(thin_box, 50) == 0
    np.testing.assert_allclose(TRIANGLE.project(np.array([3.0, 3.0])), [2.0, 1.0])


def test_a_projection_that_no_method_proves_is_an_error(monkeypatch):
    monkeypatch.setattr(HalfSpaces, "_is_nearest", lambda *_: False)
    with refused("projection-not-converged", NumericalError):
        TRIANGLE.project(np.array([3.0, 3.0]))


def test_a_half_space_that_asks_nothing_changes_nothing():
    domain = HalfSpaces([[0.0, 0.0], [1.0, 0.0]], [1.0, 1.0])
    found = domain.project(np.array([3.0, 3.0]))
    np.testing.assert_allclose(found, [1.0, 3.0], rtol=1e-14)


@each(
    ("normals", "offsets"),
    [
        ([[1.0], [-1.0]], [-1.0, -1.0]),  # x <= -1 and x >= 1
        ([[0.0, 0.0]], [-1.0]),  # 0 <= -1
        ([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [-1.0, 0.0, 0.0]),
        ([[1.0], [-1.0]], [-1e-10, -1e-10]),  # far below any tolerance of a program
        ([[1.0, 0.0], [-1.0, 0.0]], [5.0, -5.0 - 1e-6]),
    ],
)
def test_half_spaces_without_a_common_point_are_refused(normals, offsets):
    with refused("empty-domain"):
        HalfSpaces(normals, offsets)


@each(
    ("normals", "offsets"),
    [([1.0, 2.0], [1.0]), ([[1.0, 2.0]], [1.0, 2.0]), ([[1.0, 2.0]], [[1.0]])],
)
def test_half_spaces_of_odd_shapes_are_refused(normals, offsets):
    with refused("wrong-shape"):
        HalfSpaces(normals, offsets)


@each(
    ("domain", "bounded"),
    [
        (Box(-1.0, 1.0, dim=2), True),
        (Ball(0.0, 1.0, dim=2), True),
        (Simplex(3), True),
        (WholeSpace(2), False),
        (TRIANGLE, True),
        (WEDGE, True),
        (HalfSpaces([[1.0, 1.0]], [1.0]), False),
        (HalfSpaces([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 1.0]), False),
        (HalfSpaces([[1.0], [-1.0]], [2.0, -2.0]), True),  # a single point
        (HalfSpaces(np.zeros((0, 2)), []), False),
    ],
)
def test_a_domain_knows_whether_it_is_bounded(domain, bounded):
    assert domain.is_bounded is bounded


@few
@given(st.data(), st.integers(1, 4), st.integers(1, 7))
def test_half_spaces_are_bounded_iff_their_normals_span_positively(data, dim, count):
    """{y : N y <= 0} = {0} iff the set is bounded (its recession cone is trivial).

    The oracle looks for the longest recession direction inside the unit cube.
    """
    entries = st.integers(-3, 3).map(float)
    rows = st.lists(entries, min_size=dim, max_size=dim)
    normals = np.array(data.draw(st.lists(rows, min_size=count, max_size=count)))
    domain = HalfSpaces(normals, np.ones(count))
    ends = [
        optimize.linprog(
            -direction, A_ub=normals, b_ub=np.zeros(count), bounds=(-1, 1)
        ).fun
        for direction in np.vstack([np.eye(dim), -np.eye(dim)])
    ]
    assert domain.is_bounded == (min(ends) > -1e-9)


def test_boundedness_is_answered_for_normals_of_very_different_lengths():
    """The linear program's presolve finds "unbounded or infeasible" for this one."""
    domain = HalfSpaces(
        [
            [3.46e-4, 3.046e-3, 3.322e-3, -8.41e-4],
            [9.574e-2, -5.528e-2, 3.842e-2, 0.17953],
            [-4.432e-2, 3.243e-2, 3.098e-2, -4.83e-3],
            [1.406e-3, 1.0257e-2, -2.927e-3, 8.75e-4],
            [-13.316, -2.0689, 4.1504, -3.5272],
            [-1.297e-3, -2.43e-3, -1.408e-3, -2.12e-4],
        ],
        [1.959e-3, 0.22091, 7.659e-2, -6.535e-3, 10.639, 6.357e-3],
    )
    assert domain.is_bounded in {True, False}


@each(
    ("make", "what"),
    [
        (lambda: Box(1.0, 0.0, dim=2), "the box is empty"),
        (lambda: Box([0.0, np.nan], 1.0, dim=2), "lower bounds must be finite"),
        (lambda: Box(0.0, np.inf, dim=1), "upper bounds must be finite"),
        (lambda: Box([0.0, 0.0], 1.0, dim=3), "lower bounds must be one number or 3"),
        (lambda: Ball(0.0, 0.0, dim=2), "radius must be positive and finite, found 0"),
        (lambda: Ball(0.0, -1.0, dim=2), "radius must be positive"),
        (lambda: Ball(0.0, np.nan, dim=2), "radius must be positive"),
        (lambda: Ball(0.0, np.inf, dim=2), "radius must be positive"),
        (lambda: Ball([0.0], 1.0, dim=2), "centre must be one number or 2"),
        (lambda: Simplex(3, total=0.0), "total must be positive and finite, found 0"),
        (lambda: Simplex(3, total=np.nan), "total must be positive"),
        (lambda: HalfSpaces([[np.nan]], [1.0]), "normals must be finite"),
        (lambda: HalfSpaces([[1.0]], [np.inf]), "offsets must be finite"),
    ],
)
def test_a_domain_that_is_none_is_refused_with_what_was_found(make, what):
    with pytest.raises(InvalidInputError, match=what):
        make()


def test_a_box_may_be_a_single_point():
    point = Box([1.0, 2.0], [1.0, 2.0], dim=2)
    assert point.project(np.array([9.0, -9.0])).tolist() == [1.0, 2.0]


def test_a_ball_is_about_the_origin_unless_told_otherwise():
    found = Ball(radius=2.0, dim=3)
    assert found.centre.tolist() == [0.0, 0.0, 0.0]
    assert found.project(np.array([0.0, 3.0, 4.0])).tolist() == pytest.approx(
        [0.0, 1.2, 1.6]
    )
    with refused("radius-not-positive"):
        Ball(3.0, dim=2)


@pytest.mark.parametrize("dim", [1, 2, 7, 60])
def test_points_inside_a_ball_move_by_rounding_alone(dim):
    """Those that are surely inside take a shortcut, to the same bits.

    Twin: a point beyond the shortcut's reach, still inside, beside them in one array.
    """
    ball = Ball(0.3, 5.0, dim=dim)
    reach = 5.0 / (1.02 * np.sqrt(dim))
    near = 0.3 + np.random.default_rng(dim).uniform(-reach, reach, size=(20, dim))
    far = ball.centre + 4.999 * np.eye(dim)[:1]
    along = ball.project(np.concatenate([near, far]))
    assert (ball.project(near) == along[:-1]).all()
    assert np.abs(along - np.concatenate([near, far])).max() < 1e-14
    outside = ball.project(ball.centre + np.full((1, dim), reach * 1.1))
    assert np.linalg.norm(outside - ball.centre) == pytest.approx(5.0, rel=1e-12)
