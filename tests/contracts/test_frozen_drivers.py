"""A driver is what its maker gave it: what a run finds out is a returned value."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "veilsum"
FILES = [
    path
    for part in ("party", "drivers")
    for path in sorted((SOURCE / part).glob("*.py"))
]
MAKERS = {"__init__", "__post_init__"}
# Attributes of others: of the process, of an archive's entry, of a library's formatter,
# of simulated machines, whose state is what a simulation is about.
NOT_OURS = {"sys", "entry", "SHOWN", "node"}


def targets(node):
    match node:
        case ast.Assign(targets=found):
            flat = [one.elts if isinstance(one, ast.Tuple) else [one] for one in found]
            return [one for each in flat for one in each]
        case ast.AugAssign(target=one) | ast.AnnAssign(target=one):
            return [one]
    return []


def assigned(tree):
    """Yield every attribute that is assigned: its owner's name, and its own."""
    for node in ast.walk(tree):
        for one in targets(node):
            if isinstance(one, ast.Attribute):
                yield ast.unparse(one.value), one.attr
        match node:
            case ast.Call(func=ast.Attribute(attr="__setattr__")):
                yield "object", "__setattr__"
            case ast.Call(func=ast.Name(id="setattr")):
                yield "setattr", "?"


def is_frozen(decorator):
    return isinstance(decorator, ast.Call) and any(
        one.arg == "frozen" and getattr(one.value, "value", False) is True
        for one in decorator.keywords
    )


def drivers(tree):
    """Return the classes that carry something out, but for the protocol of them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "Protocol" not in map(
            ast.unparse, node.bases
        ):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            if any(one.name == "carry_out" for one in methods):
                yield node, methods


def faults(text):
    tree = ast.parse(text)
    for name, attribute in assigned(tree):
        if name != "self" and name not in NOT_OURS:
            yield f"{name}.{attribute} is assigned after construction"
    for node, methods in drivers(tree):
        if not any(map(is_frozen, node.decorator_list)):
            yield f"{node.name} is not frozen"
        for method in methods:
            if method.name not in MAKERS:
                for name, attribute in assigned(method):
                    yield f"{node.name}.{method.name} assigns {name}.{attribute}"


def test_no_driver_is_assigned_to_after_its_construction():
    found = {path.name: [*faults(path.read_text())] for path in FILES}
    assert {name: told for name, told in found.items() if told} == {}
    classes = [
        node.name for path in FILES for node, _ in drivers(ast.parse(path.read_text()))
    ]
    assert {
        "NetworkedParty",
        "Loopback",
        "ArrayDriver",
        "HomeDriver",
        "PartyReplayDriver",
    } <= {*classes}


DRIVER = """
@dataclass({how})
class Mine:
    ending: object = None

    def carry_out(self, assignment):
        {body}
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (DRIVER.format(how="eq=False", body="return assignment"), "Mine is not frozen"),
        (
            DRIVER.format(how="frozen=True", body="self.ending = assignment"),
            "Mine.carry_out assigns self.ending",
        ),
        (
            DRIVER.format(
                how="frozen=True", body='object.__setattr__(self, "ending", 1)'
            ),
            "Mine.carry_out assigns object.__setattr__",
        ),
        ("driver.watch, driver.record = watch, record", "driver.watch is assigned"),
        ("driver.plan += 1", "driver.plan is assigned"),
        ('setattr(driver, "plan", None)', "setattr.? is assigned"),
    ],
)
def test_a_planted_assignment_is_found(text, fault):
    assert any(told.startswith(fault) for told in faults(text))
    kept = DRIVER.format(how="frozen=True", body="return assignment")
    assert [*faults(kept)] == []
