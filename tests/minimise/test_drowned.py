"""A run whose masks leave no answer says so, and no other run does."""

import veilsum as vs
from cases import each

COSTS = [
    vs.minimise.Cost.squared_distance([k, 1.0]) for k in (-4.0, -2.0, 0.0, 1.0, 3.0)
]
BOX = vs.minimise.Box(-10, 10, dim=2)


def run(*, sigma, law="gaussian", domain=BOX, iterations=300, **settings):
    return vs.solve(
        COSTS,
        topology=vs.Topology.family("ring:5"),
        corrupted=(),
        domain=domain,
        law=law,
        sigma=sigma,
        settings=vs.minimise.Settings(iterations=iterations, **settings),
        seed=1,
    )


DOMAINS = {
    "box": BOX,
    "ball": vs.minimise.Ball(0.0, 10.0, dim=2),
    "half-spaces": vs.minimise.HalfSpaces(
        [[1, 0], [-1, 0], [0, 1], [0, -1]], [10, 10, 10, 10]
    ),
}


@each("domain", DOMAINS.values(), ids=DOMAINS)
def test_masks_that_fill_the_domain_are_said_to(domain):
    found = run(sigma=1e4, domain=domain, iterations=100)
    assert found.max_error > 5.0
    assert found.drowned.startswith("masks drown the answer: ")
    assert "law lattice" in found.drowned


@each(
    ("settings", "largest"),
    [
        ({"sigma": 1.0}, 0.2),
        ({"sigma": 10.0}, 1.0),
        ({"sigma": 1e4, "law": "lattice"}, 0.2),
        ({"sigma": 1e4, "method": "gradient-tracking"}, 1e-4),
        ({"sigma": None, "law": "none"}, 0.2),
    ],
    ids=str,
)
def test_a_run_that_gets_somewhere_says_nothing(settings, largest):
    found = run(**settings)
    assert found.max_error < largest
    assert found.drowned is None


def test_masks_are_not_blamed_for_too_few_iterations():
    """One step of 1 from the start: estimates are apart because targets are."""
    found = run(sigma=1e-3, iterations=1)
    assert found.max_error > 3.0
    assert found.drowned is None


def test_nothing_fills_the_whole_space():
    found = run(
        sigma=1e4,
        domain=vs.minimise.WholeSpace(2),
        method="gradient-tracking",
        iterations=1,
    )
    assert found.max_error > 5.0
    assert found.drowned is None
