"""`veilsum consortium`: from a plan to the file that members hold."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases import each
from veilsum.cli.app import app
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import certificate_fingerprint, make_certificate, new_identity

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSPITALS = tuple(f"hospital-{k}" for k in range(1, 6))
CLINICS = ("alder", "birch", "cedar", "elm", "fir")


def call(*words):
    return CliRunner().invoke(app, ["consortium", *map(str, words)])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: new_identity(name, folder) for name in (*HOSPITALS, *CLINICS)}


def certificates(keys, names):
    return [
        word
        for name in names
        for word in ("--certificate", keys[name].certificate_file)
    ]


def addresses(names):
    return [
        word
        for name in names
        for word in ("--address", f"{name}={name}.example.org:8443")
    ]


@pytest.fixture
def words(keys, tmp_path):
    """What makes a consortium of the five hospitals; the last only dials."""
    return [
        *("new", EXAMPLES / "diabetes.toml", "-o", tmp_path / "study.veil"),
        *certificates(keys, HOSPITALS),
        *addresses(HOSPITALS[:4]),
    ]


def test_a_plan_becomes_a_file_that_shows_the_same(words, keys, tmp_path):
    made = document(*words)
    shown = document("show", tmp_path / "study.veil")
    left_out = made.pop("left_out")
    assert made == shown
    assert [one.partition(":")[0] for one in left_out] == [
        *("[data]", "[simulation] seed")
    ]
    assert shown["digest"] == read_consortium(tmp_path / "study.veil").digest.hex()
    agreed = read_consortium(tmp_path / "study.veil").schema
    assert shown["dictionary"] == agreed.digest
    assert [one["name"] for one in shown["members"]] == list(HOSPITALS)
    assert shown["members"][4]["address"] is None
    assert shown["members"][0] == {
        "name": "hospital-1",
        "address": "hospital-1.example.org:8443",
        "fingerprint": certificate_fingerprint(keys["hospital-1"].certificate),
        "problem": None,
    }
    assert len(shown["links"]) == 10
    assert {"dials": "hospital-1", "answers": "hospital-2"} in shown["links"]
    assert {"dials": "hospital-5", "answers": "hospital-1"} in shown["links"]


def test_people_see_fingerprints_links_and_what_was_left_out(words, keys, tmp_path):
    made = call(*words)
    assert made.exit_code == 0, made.output
    for name in HOSPITALS:
        groups = certificate_fingerprint(keys[name].certificate).split()
        assert " ".join(groups[:8]) in made.stdout
        assert " ".join(groups[8:]) in made.stdout
    assert "telephone" in made.stdout
    link = "hospital-5 dials hospital-1 at hospital-1.example.org:8443"
    assert link in made.stdout
    assert "hospital-5  only dials" in made.stdout
    assert "[data]: private" in made.stdout
    assert '"bmi" number 10 to 80, unit 0.1' in made.stdout
    assert '"sex" one of 2: "1", "2"' in made.stdout
    shown = call("show", tmp_path / "study.veil")
    assert made.stdout.startswith(shown.stdout)


def test_nobodys_private_figures_are_in_the_file(keys, tmp_path):
    path = tmp_path / "average.veil"
    found = call(
        *("new", EXAMPLES / "average.toml", "-o", path),
        *certificates(keys, CLINICS),
        *addresses(CLINICS),
    )
    assert found.exit_code == 0, found.output
    assert "[cost] targets: private" in found.stdout
    text = path.read_text()
    plan = (EXAMPLES / "average.toml").read_text()
    for figure in ("410.55", "164.0", "97.0"):
        assert figure in plan
        assert figure not in text


def test_the_plan_may_name_certificates_and_addresses(keys, tmp_path):
    lines = [(EXAMPLES / "diabetes.toml").read_text(), "[deployment.certificates]"]
    for name in HOSPITALS:
        (tmp_path / f"{name}.crt").write_text(keys[name].certificate)
        lines.append(f'{name} = "{name}.crt"')
    lines.append("[deployment.addresses]")
    lines += [f'{name} = "{name}:{8000 + k}"' for k, name in enumerate(HOSPITALS)]
    (tmp_path / "plan.toml").write_text("\n".join(lines))
    made = document("new", tmp_path / "plan.toml", "-o", tmp_path / "study.veil")
    assert made["members"][4]["address"] == "hospital-5:8004"
    assert made["members"][4]["fingerprint"] == certificate_fingerprint(
        keys["hospital-5"].certificate
    )


def test_the_plan_may_name_a_relay(keys, tmp_path):
    """Then nobody needs an address; the page says who meets where."""
    own = keys["alder"].certificate  # as a relay's certificate would be
    (tmp_path / "relay.crt").write_text(own)
    relays = ["wss://relay.example.org", "wss://relay.example.net:8443/veil"]
    plan = [
        (EXAMPLES / "diabetes.toml").read_text(),
        f"[deployment]\nrelay = {json.dumps(relays)}",
        f'relay_token = "{"6f" * 32}"\nrelay_certificate = "relay.crt"',
    ]
    (tmp_path / "plan.toml").write_text("\n".join(plan))
    given = ["new", tmp_path / "plan.toml", *certificates(keys, HOSPITALS)]
    made = document(*given, "-o", tmp_path / "study.veil")
    assert made["relays"] == ["wss://relay.example.org:443", relays[1]]
    agreed = read_consortium(tmp_path / "study.veil")
    assert agreed.relays.certificate == own
    shown = call("show", tmp_path / "study.veil").stdout
    assert "hospital-1 and hospital-2 meet at a relay" in shown
    assert f"  {relays[1]}\n" in shown
    (tmp_path / "plan.toml").write_text("\n".join([*plan[:2], 'relay_token = "x"']))
    assert "64 hexadecimal" in refusal(*given, "-o", tmp_path / "other.veil")


def test_a_file_is_never_replaced(words, tmp_path):
    first = document(*words)
    assert "never replaced" in refusal(*words)
    assert document("show", tmp_path / "study.veil")["run"] == first["run"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--address", "hospital-5"], "NAME=HOST:PORT"),
        (["--address", "hospital-5=8443"], "an address is host:port"),
        (["--address", "hospital-6=h:1"], "unknown party 'hospital-6'"),
        (["--address", "hospital-4="], "the link hospital-4 - hospital-5"),
        (["--certificate", "gone.crt"], "cannot read gone.crt"),
    ],
    ids=lambda value: str(value)[-30:],
)
def test_odd_options_are_answered_in_a_sentence(words, tmp_path, more, expected):
    assert expected in refusal(*words, *more)
    assert not (tmp_path / "study.veil").exists()


def test_a_missing_certificate_is_named(words, tmp_path):
    plan = tmp_path / "plan.toml"
    text = (EXAMPLES / "diabetes.toml").read_text()
    names = ", ".join(f'"{name}"' for name in HOSPITALS)
    plan.write_text(f"{text}\n[parties]\nnames = [{names}]\n")
    words[1] = plan
    del words[4:6]
    assert "no certificate of hospital-1: each party makes" in refusal(*words)


def test_two_certificates_of_one_name_are_refused(words, tmp_path):
    other = new_identity("hospital-1", tmp_path / "other")
    more = ["--certificate", other.certificate_file]
    assert "two certificates say 'hospital-1'" in refusal(*words, *more)


def test_a_certificate_under_another_name_is_refused(words, keys, tmp_path):
    """Such as one that somebody put into the file afterwards."""
    assert call(*words).exit_code == 0
    path = tmp_path / "study.veil"
    eve = new_identity("eve", tmp_path).certificate
    path.write_text(path.read_text().replace(keys["hospital-1"].certificate, eve))
    assert "'hospital-1' has a certificate that says 'eve'" in refusal("show", path)


def test_an_expired_certificate_is_refused_and_shown(words, keys, tmp_path):
    """A new file must not begin with one; an old file may come to hold one."""
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 2, 1, tzinfo=UTC)
    key = Ed25519PrivateKey.generate()
    old = make_certificate(key, "hospital-1", start=start, end=end)
    (tmp_path / "old.crt").write_text(old)
    late = list(words)
    late[late.index("--certificate") + 1] = tmp_path / "old.crt"
    assert "'hospital-1' is not good: it has expired on 2020-02-01" in refusal(*late)
    path = tmp_path / "study.veil"
    assert not path.exists()
    assert call(*words).exit_code == 0
    path.write_text(path.read_text().replace(keys["hospital-1"].certificate, old))
    assert "not good now: it has expired" in call("show", path).stdout


def test_a_schema_that_would_stop_everybody_is_refused_now(words, tmp_path):
    plan = tmp_path / "plan.toml"
    text = (EXAMPLES / "diabetes.toml").read_text()
    plan.write_text(text.replace('"category"', '"categry"'))
    words[1] = plan
    assert "categry" in refusal(*words)
    assert not (tmp_path / "study.veil").exists()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("~ age", "~ agee", "'agee'"),
        ("tolerate = 2", "tolerate = 3", "5 parties are too few"),
        ('formula = "', 'weights = "sex"\nformula = "', "'sex' is a category"),
    ],
    ids=("column", "policy", "weights"),
)
def test_what_every_member_would_refuse_is_refused_now(
    words, tmp_path, old, new, expected
):
    plan = tmp_path / "plan.toml"
    text = (EXAMPLES / "diabetes.toml").read_text()
    assert old in text
    plan.write_text(text.replace(old, new))
    words[1] = plan
    assert expected in refusal(*words)
    assert not (tmp_path / "study.veil").exists()


def test_the_digest_is_shown_whole_and_in_groups(words, tmp_path):
    digest = document(*words)["digest"]
    shown = call("show", tmp_path / "study.veil").stdout
    groups = [digest[k : k + 4] for k in range(0, 64, 4)]
    assert " ".join(groups) in " ".join(shown.split())


def test_a_job_without_a_schema_is_told_how_to_write_one(words, tmp_path):
    plan = tmp_path / "plan.toml"
    text = (EXAMPLES / "diabetes.toml").read_text()
    start, end = text.index("[schema]"), text.index("[model]")
    plan.write_text(text[:start] + text[end:])
    words[1] = plan
    assert 'age = { kind = "number", minimum = 0' in refusal(*words)


@each("words", [(), ("new",), ("show",)], ids=str)
def test_help_has_an_example(words):
    found = call(*words, "--help")
    assert found.exit_code == 0
    assert "veilsum consortium" in found.stdout.partition("Example:")[2]
