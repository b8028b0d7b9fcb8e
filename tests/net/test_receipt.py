"""Receipts: nobody else's word, nothing private, and what they prove together."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from receipts import DIGEST, OTHER, PARTIES, Study, promised
from refusals import refused
from veilsum.consortium.consortium import canonical_agreement_json
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.net.identity import certificate_public_key, new_identity
from veilsum.net.receipt import (
    ALIKE,
    FIELDS,
    FORMAT,
    OPTIONAL,
    Receipt,
    make_receipt,
    read_receipt,
    receipt_from,
    verify_receipts,
)

LEFT = "those who are left may go on"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def loose(tmp_path_factory):
    """The same five, whose policy lets them go on without somebody."""
    return Study(tmp_path_factory.mktemp("loose"), {"drop": True})


def wrong(receipts, consortium=None):
    """The findings that do not hold, with who is concerned."""
    verdict = verify_receipts(receipts, consortium)
    found = {one.check: one.detail for one in verdict.findings if not one.good}
    assert verdict.good == (not found)
    return found


def file_of(receipt):
    return json.loads(receipt.to_json())


# One receipt


def test_a_receipt_comes_back_from_its_file_as_it_was(study, tmp_path):
    receipt = study.receipt("a")
    path = tmp_path / "receipt.json"
    path.write_text(receipt.to_json())
    assert read_receipt(path) == receipt
    assert read_receipt(path).is_signed
    assert list(file_of(receipt)) == [
        "format",
        *(one for one in FIELDS if one not in OPTIONAL),
    ]


def test_a_receipt_speaks_of_evidence_only_where_there_is_some(study):
    """So receipts from before, and of runs without any, are what they were."""
    receipt = study.receipt("a", evidence=[OTHER], sums=OTHER)
    assert list(file_of(receipt)) == ["format", *FIELDS]
    assert receipt_from(file_of(receipt)) == receipt
    assert receipt.is_signed
    for some in ([], [OTHER[1:]], OTHER, [OTHER, None]):
        with refused("wrong-field-value"):
            receipt_from({**file_of(receipt), "evidence": some})
    without = {k: v for k, v in file_of(receipt).items() if k != "evidence"}
    assert not receipt_from(without).is_signed, "it was signed, and cannot be left out"
    # Each party keeps what came to it: receipts need not be alike in this.
    assert wrong([receipt, *study.receipts("a")], study.consortium) == {}


def test_a_stranger_can_check_the_signature_from_the_file_alone(study):
    """The rule: Ed25519 over a prefix and the rest as JSON, sorted, without spaces."""
    table = file_of(study.receipt("b"))
    signature = bytes.fromhex(table.pop("signature"))
    text = json.dumps(table, sort_keys=True, separators=(",", ":"))
    signed = b"veilsum receipt\0" + text.encode()
    certificate_public_key(table["certificate"]).verify(signature, signed)


def test_nobody_signs_in_anothers_name(study):
    fields = {**study.fields("a"), "party": "a", "certificate": "another"}
    receipt = make_receipt(study.identities["b"], **fields)
    assert receipt.party == "b"
    assert receipt.certificate == study.identities["b"].certificate


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from([OTHER, "b", *PARTIES, "2031-01-01T00:00:00+00:00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def is_caught(table):
    """Whether a reader refuses this, or sees that it was not signed so."""
    try:
        return not receipt_from(table).is_signed
    except InvalidInputError:
        return True


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_change_of_any_field_goes_unnoticed(study, data):
    table = file_of(study.receipt("a"))
    assert not is_caught(table), "the twin: unchanged it is good"
    field = data.draw(st.sampled_from(sorted(table)))
    before, after = table[field], data.draw(VALUES)
    table[field] = after
    assert is_caught(table) == (
        canonical_agreement_json(before) != canonical_agreement_json(after)
    )


LIKELY = {
    "consent": OTHER,
    "run": "study-" + "1" * 32,
    "plan": OTHER,
    "consortium": OTHER,
    "party": "b",
    "parties": ["a", "b", "c", "d"],
    "lost": ["e"],
    "epochs": [0],
    "confirmed": ["b", "c", "d", "e"],
    "result": OTHER,
    "released": [],
    "guarantee": {"status": "private", "epsilon": 0.12, "cut": None},
    "started": "2030-01-31T12:00:01+00:00",
    "finished": "2030-01-31T12:00:06+00:00",
    "version": "1.1",
    "evidence": [OTHER],
    "sums": OTHER,
    "signature": "00" * 64,
}


@each("field", [field for field in FIELDS if field != "certificate"])
def test_a_value_of_the_right_kind_is_no_better(study, field):
    table = file_of(study.receipt("a"))
    receipt = receipt_from({**table, field: LIKELY[field]})
    assert not receipt.is_signed
    assert "signatures are good" in wrong([receipt])


@given(st.integers(0, 127), st.integers(1, 15))
def test_no_digit_of_a_signature_may_change(study, place, change):
    receipt = study.receipt("a")
    digits = list(receipt.signature)
    digits[place] = f"{int(digits[place], 16) ^ change:x}"
    assert not replace(receipt, signature="".join(digits)).is_signed


def test_a_receipt_under_another_key_is_caught(study, tmp_path):
    """An outsider's own certificate in place of a's, signed well."""
    outsider = new_identity("a", tmp_path)
    forged = study.receipt("a", signer=outsider)
    assert forged.is_signed
    receipts = [forged, *study.receipts("a")]
    assert wrong(receipts, study.consortium) == {
        "certificates are the members'": "not of a"
    }
    # Without the file people compare fingerprints: all else holds.
    verdict = verify_receipts(receipts)
    assert verdict.good
    assert verdict.fingerprints != verify_receipts(study.receipts()).fingerprints


def test_a_signature_by_another_key_than_the_certificates_is_caught(study):
    other = study.receipt("a", signer=study.identities["b"])
    mixed = replace(study.receipt("a"), signature=other.signature)
    assert wrong([mixed, *study.receipts("a")], study.consortium) == {
        "signatures are good": "not of a"
    }


def test_a_certificate_that_names_another_is_caught_without_a_file_too(study):
    fields = {**file_of(study.receipt("b")), "party": "a"}
    found = wrong([receipt_from(fields)])
    assert found["certificates name their party"] == "not of a"


# What is not a receipt

ODD = {
    "no JSON": "{",
    "a list": "[]",
    "empty": "",
    "another format": '{"format": "veilsum receipt 1"}',
    "deep": "[" * 100_000,
    "nested": '{"format": ' + "[" * 600 + "]" * 600 + "}",
    "a key twice": '{"format": "veilsum receipt 3", "format": "veilsum receipt 3"}',
    "not a number": '{"format": NaN}',
    "beyond numbers": '{"format": 1e999}',
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_what_is_not_a_receipt_is_refused_with_its_path(tmp_path, text):
    path = tmp_path / "receipt.json"
    path.write_text(text)
    with refused("wrong-file-kind", mentions=(path,)):
        read_receipt(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with refused("cannot-read"):
        read_receipt(tmp_path / "nowhere.json")
    path = tmp_path / "latin.json"
    path.write_bytes(b"\xff\xfe")
    with refused("wrong-file-kind"):
        read_receipt(path)


def test_a_field_too_many_or_too_few_is_named(study):
    table = file_of(study.receipt("a"))
    with refused("wrong-fields", mentions=("note",)):
        receipt_from({**table, "note": "it was me"})
    del table["lost"]
    with refused("wrong-fields", mentions=("lost",)):
        receipt_from(table)


BAD = {
    "run": (3, "a text"),
    "plan": ("0F" * 32, "64 hexadecimal digits"),
    "party": ("a\x1b[2K", "a name"),
    "parties": ("abcde", "a list of names"),
    "confirmed": (["\x1b]0;x\x07"], "a list of names"),
    "epochs": ([True], "whole numbers"),
    "guarantee": ([], "a table"),
    "started": ("2030-01-31T12:00:00", "with its zone"),
    "signature": ("00", "128 hexadecimal digits"),
    "certificate": ("not one", "one certificate"),
}


@each("field", BAD)
def test_a_field_of_the_wrong_kind_is_named(study, field):
    value, words = BAD[field]
    with pytest.raises(InvalidInputError, match=words):
        receipt_from({**file_of(study.receipt("a")), field: value})
    if field not in {"party", "certificate", "signature"}:
        with pytest.raises(InvalidInputError, match=words):
            study.receipt("a", **{field: value})


@given(VALUES | st.dictionaries(st.sampled_from(["format", *FIELDS]), VALUES))
def test_nothing_but_a_sentence_comes_of_nonsense(value):
    table = {**value, "format": FORMAT} if isinstance(value, dict) else value
    with pytest.raises(VeilsumError):
        receipt_from(table)


def test_a_receipt_names_no_key_and_no_file(study):
    receipt = study.receipt("a")
    text = receipt.to_json()
    assert "PRIVATE" not in text
    assert str(study.identities["a"].key_file.parent) not in text
    assert set(Receipt.__dataclass_fields__) == set(FIELDS)


# Several receipts


def test_the_receipts_of_a_good_run_hold(study):
    for consortium in (None, study.consortium):
        verdict = verify_receipts(study.receipts(), consortium)
        assert verdict.good
        assert {one.detail for one in verdict.findings} == {"5 of 5", "6 of 6"}
    checks = [one.check for one in verdict.findings]
    assert len(checks) == len(set(checks))


@each(
    ("change", "same"),
    [
        ({"epsilon": 0.125 * (1 + 1e-12)}, True),
        ({"epsilon": 0.125 * (1 + 1e-6)}, False),
        ({"epsilon": None}, False),
        ({"limits": ["in other words"]}, True),
        ({"honest": list("bdec")}, True),
        ({"more": 1}, False),
        ({"status": "exposed"}, False),
        ({"cut": False}, False),
    ],
    ids=lambda one: str(one),
)
def test_guarantees_are_compared_but_for_last_digits_and_words(study, change, same):
    promise = {**promised(PARTIES), "limits": ["in words"]}
    receipts = study.receipts("c", guarantee=promise)
    receipts.append(study.receipt("c", guarantee={**promise, **change}))
    found = wrong(receipts, study.consortium)
    assert found == ({} if same else {"the same guarantee": "a, b, d, e against c"})


def test_which_of_several_worst_coalitions_is_named_means_nothing(study):
    told = {**promised(PARTIES), "worst_coalition": ["a"], "mu2": 4.0}
    other = {
        **told,
        "worst_coalition": ["c"],
        "corrupted": ["c"],
        "honest": list("abde"),
    }
    receipts = study.receipts("c", guarantee=told)
    assert wrong([*receipts, study.receipt("c", guarantee=other)]) == {}
    for worse in ({"status": "exposed"}, {"mu2": 3.0}, {"epsilon": 0.126}):
        given = {**other, **worse}
        found = wrong([*receipts, study.receipt("c", guarantee=given)])
        assert found == {"the same guarantee": "a, b, d, e against c"}


@each("huge", [10**400, -(10**400), 1e308])
def test_a_number_beyond_all_floats_is_only_another_one(study, huge):
    receipts = study.receipts("c")
    promise = {**promised(PARTIES), "epsilon": huge}
    receipts.append(study.receipt("c", guarantee=promise))
    assert wrong(receipts) == {"the same guarantee": "a, b, d, e against c"}


def test_epochs_are_compared_to_the_unit(study):
    receipts = study.receipts("c", epochs=[10**12])
    receipts.append(study.receipt("c", epochs=[10**12 + 1]))
    assert wrong(receipts) == {"the same epochs": "a, b, d, e against c"}


@each("sides", [{}, {"honest": 5}, {"corrupted": ["f"]}], ids=["none", "odd", "other"])
def test_a_guarantee_about_others_is_caught(study, sides):
    kept = {"status": "private", "honest": list(PARTIES), **sides}
    promise = {key: kept[key] for key in kept if sides or key == "status"}
    receipts = study.receipts(guarantee=promise)
    found = wrong(receipts, study.consortium)
    assert list(found) == ["guarantees are about those who took part"]


def test_the_order_of_receipts_and_names_means_nothing(study):
    receipts = study.receipts()[::-1]
    receipts[0] = study.receipt("e", parties=list(PARTIES[::-1]))
    assert wrong(receipts, study.consortium) == {}


@each("field", ALIKE)
def test_one_who_says_something_else_is_caught_and_named(study, field):
    other = study.receipt("c", **{field: LIKELY[field]})
    said = {"sums": DIGEST} if field == "sums" else {}
    receipts = [other, *study.receipts("c", **said)]
    for consortium in (None, study.consortium):
        assert wrong(receipts, consortium)[ALIKE[field]] == "c against a, b, d, e"


@pytest.mark.parametrize(("version", "same"), [("1.0", False), ("2.0", True)])
def test_one_who_agreed_to_another_page_is_caught(study, version, same):
    """The words of a page are a version's own."""
    other = study.receipt("c", consent=OTHER, version=version)
    found = wrong([other, *study.receipts("c")], study.consortium)
    page = "the same page was agreed to, by programs of one version"
    assert found == ({} if same else {page: "c against a, b, d, e"})


def test_the_same_party_twice_is_caught(study):
    found = wrong([*study.receipts(), study.receipt("d")], study.consortium)
    assert found == {"one receipt for each party": "d has 2"}


def test_two_stories_of_one_party_are_caught(study):
    receipts = [
        *study.receipts("d"),
        study.receipt("d"),
        study.receipt("d", plan=OTHER),
    ]
    found = wrong(receipts, study.consortium)
    assert found["one receipt for each party"] == "d has 2"
    assert found["the same plan"] == "a, b, c, e, d against d"


def test_an_edge_that_one_end_only_confirms_is_caught(study):
    silent = study.receipt("b", confirmed=["a"])
    receipts = [*study.receipts("b"), silent]
    for consortium in (None, study.consortium):
        assert wrong(receipts, consortium) == {
            "edges are confirmed by both ends": "b - c not by b"
        }


def test_an_edge_that_neither_end_confirms_is_caught_with_the_file(study):
    quiet = [
        study.receipt("b", confirmed=["a"]),
        study.receipt("c", confirmed=["a", "d"]),
    ]
    receipts = [*study.receipts("b", "c"), *quiet]
    assert wrong(receipts) == {}, "the twin: without the file nobody knows of it"
    assert wrong(receipts, study.consortium) == {
        "edges are confirmed by both ends": "b - c not by b, c - b not by c"
    }


def test_an_edge_that_is_not_in_the_graph_is_caught_with_the_file(study):
    made_up = [
        study.receipt("b", confirmed=["a", "c", "d"]),
        study.receipt("d", confirmed=["b", "c", "e"]),
    ]
    receipts = [*study.receipts("b", "d"), *made_up]
    assert wrong(receipts) == {}
    assert wrong(receipts, study.consortium) == {
        "edges are confirmed by both ends": "b - d is no edge"
    }


def test_parties_that_confirm_nothing_at_all_are_caught(study):
    receipts = [study.receipt(name, confirmed=[]) for name in PARTIES]
    detail = wrong(receipts)["edges are confirmed by both ends"]
    assert detail.startswith("a confirms none, b confirms none")


def test_a_missing_receipt_is_caught(study):
    for consortium in (None, study.consortium):
        found = wrong(study.receipts("e"), consortium)
        assert found == {
            "receipts of all parties": "none of e",
            "edges are confirmed by both ends": "e - a not by e, e - d not by e",
        }


def without(study, *lost, **changes):
    """The receipts of those who went on without some."""
    left = [name for name in PARTIES if name not in lost]
    return [
        study.receipt(
            name,
            parties=left,
            lost=list(lost),
            confirmed=[n for n in study.fields(name)["confirmed"] if n in left],
            **changes,
        )
        for name in left
    ]


def test_a_party_that_all_call_lost_owes_no_receipt(loose):
    for consortium in (None, loose.consortium):
        verdict = verify_receipts(without(loose, "b"), consortium)
        assert verdict.good
        details = {one.check: one.detail for one in verdict.findings}
        assert details["receipts of all parties"] == "none missing but of lost b"
        assert details["edges are confirmed by both ends"] == "4 of 4"
        assert details[LEFT] == "4 of 5"


def test_a_party_that_only_some_call_lost_is_missing(loose):
    receipts = [loose.receipt("a"), *without(loose, "b")[1:]]
    found = wrong(receipts, loose.consortium)
    assert found["receipts of all parties"] == "none of b"
    assert found["the same parties lost"] == "a against c, d, e"


def test_a_lost_party_with_a_receipt_is_a_contradiction(loose):
    own = loose.receipt("b", parties=list("acde"), lost=["b"], confirmed=[])
    found = wrong([*without(loose, "b"), own], loose.consortium)
    assert found == {"parties and lost ones add up": "not those of b"}


def test_members_that_nobody_mentions_are_missing_with_the_file(loose):
    """Four who leave the fifth out of their story."""
    kept = ["a", "c", "d", "e"]
    receipts = [replaced_parties(loose, one, kept) for one in without(loose, "b")]
    assert wrong(receipts) == {}
    found = wrong(receipts, loose.consortium)
    assert found["receipts of all parties"] == "none of b"
    assert "not those of a" in found["parties and lost ones add up"]


def replaced_parties(study, receipt, parties):
    confirmed = list(receipt.confirmed)
    return study.receipt(receipt.party, parties=parties, confirmed=confirmed)


# Who may go on without whom


def test_nobody_is_lost_where_the_policy_does_not_say_so(study):
    """Four sign that the fifth was lost; the twin with `drop` is above."""
    receipts = without(study, "b")
    assert wrong(receipts) == {}, "without the file nobody knows of the policy"
    assert wrong(receipts, study.consortium) == {
        LEFT: "[policy] has no drop, so nobody goes on without b"
    }


@each("name", PARTIES)
def test_one_party_alone_is_no_run(study, loose, name):
    others = [one for one in PARTIES if one != name]
    alone = without(study, *others, result="00" * 32)
    assert LEFT in wrong(alone, study.consortium)
    assert wrong(alone)[LEFT] == f"{name} of 5 parties are not more than half"
    reason = f"only {name} would go on, and the plan wants 3 of 5 at least"
    assert wrong(without(loose, *others), loose.consortium) == {LEFT: reason}


@given(st.sets(st.sampled_from(PARTIES), max_size=4))
def test_those_who_are_left_are_judged_by_the_plans_own_rule(loose, lost):
    """At least three honest ones, whom no one of them separates, as it is in a ring."""
    found = wrong(without(loose, *sorted(lost)), loose.consortium)
    rings = [set(), {"b"}]
    assert (LEFT in found) == (lost not in rings)


@given(st.sets(st.sampled_from(PARTIES), max_size=4))
def test_without_the_file_more_than_half_must_be_left(study, lost):
    found = wrong(without(study, *sorted(lost)))
    assert (LEFT in found) == (len(lost) > 2)


def test_names_that_are_no_members_do_not_help(loose):
    crowd = ["a", "x1", "x2", "x3"]
    one = loose.receipt("a", parties=crowd, lost=list("bcde"), confirmed=[])
    assert "only a would go on" in wrong([one], loose.consortium)[LEFT]


def test_a_run_in_which_nothing_was_committed_is_caught(study):
    found = wrong(study.receipts(epochs=[]), study.consortium)
    assert list(found) == ["an epoch was committed"]
    one = [study.receipt("c", epochs=[]), *study.receipts("c")]
    assert wrong(one)["an epoch was committed"] == "not of c"


def test_a_run_that_finished_before_it_started_is_caught(study):
    """Compared as times, wherever the clocks are."""
    check = "runs started before they finished"
    late = study.receipt("d", started="2099-01-01T00:00:00+00:00")
    assert wrong([late, *study.receipts("d")], study.consortium) == {check: "not of d"}
    east = {
        "started": "2030-01-31T14:00:00+02:00",
        "finished": "2030-01-31T12:00:00+00:00",
    }
    assert wrong(study.receipts(**east)) == {}
    east["finished"] = "2030-01-31T13:59:59+02:00"
    assert check in wrong(study.receipts(**east))


def test_receipts_of_another_consortium_are_caught(study):
    receipts = study.receipts(consortium=OTHER)
    check = "run and consortium are the file's"
    assert wrong(receipts) == {}
    assert wrong(receipts, study.consortium)[check].startswith("not of a, not of b")
    receipts = study.receipts(run="study-" + "1" * 32)
    assert check in wrong(receipts, study.consortium)


def test_one_receipt_alone_proves_little(study):
    found = wrong([study.receipt("a")])
    assert found["receipts of all parties"].startswith("none of b, none of c")


def test_no_receipts_are_refused():
    with refused("no-receipts"):
        verify_receipts([])


def test_a_verdict_is_plain_json(study):
    found = verify_receipts(study.receipts("e")).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["good"] is False
    assert {tuple(one) for one in found["findings"]} == {("check", "good", "detail")}
    assert [one["party"] for one in found["fingerprints"]] == list(PARTIES[:-1])
