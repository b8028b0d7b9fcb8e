"""What an IT department installs: checked by the programs that will read it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from veilsum.cli.app import app

DEPLOY = Path(__file__).parents[1] / "deploy"
BIN = Path(sys.executable).parent


def ran(*words):
    return subprocess.run([*map(str, words)], capture_output=True, text=True)


@pytest.fixture(params=["veilsum", "veilsum-relay"])
def unit(request, tmp_path):
    """A unit as it would stand there, with a program that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    written = (DEPLOY / f"{request.param}.service").read_text()
    path = tmp_path / f"{request.param}.service"
    path.write_text(written.replace("/opt/veilsum/bin/veilsum", str(BIN / "veilsum")))
    return path


def test_systemd_reads_the_unit(unit):
    found = ran("systemd-analyze", "verify", unit)
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""


def test_systemd_finds_a_mistake(unit):
    """The twin: a misspelt key does not pass."""
    unit.write_text(unit.read_text().replace("NoNewPrivileges", "NoNewPrivilege"))
    assert "NoNewPrivilege" in ran("systemd-analyze", "verify", unit).stderr


def test_the_service_may_do_little(unit):
    """systemd's own measure, 0 to 10; a plain service has 9.6."""
    words = ("security", "--offline=true", "--threshold=20")
    assert ran("systemd-analyze", *words, unit).returncode == 0
    plain = unit.with_name("plain.service")
    plain.write_text("[Service]\nExecStart=/bin/true\n")
    assert ran("systemd-analyze", *words, plain).returncode != 0


def test_the_image_file_has_nothing_to_complain_about(tmp_path):
    found = ran(BIN / "hadolint", DEPLOY / "Containerfile")
    assert found.returncode == 0, found.stdout
    root = tmp_path / "Containerfile"
    root.write_text("FROM debian\nRUN sudo apt-get install curl\n")
    assert ran(BIN / "hadolint", root).returncode != 0


def test_the_image_is_nobodys_root_and_writes_to_its_volume_alone():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    last = lines[max(at for at, line in enumerate(lines) if line.startswith("FROM")) :]
    assert "USER 10001:10001" in last
    assert not any(line.startswith("RUN") for line in last), "root's work is all before"
    assert 'VOLUME ["/var/lib/veilsum"]' in last


def test_what_is_started_is_a_party_with_a_table():
    """Both start the same, and every word of it is an option that there is."""
    unit = (DEPLOY / "veilsum.service").read_text()
    line = next(one for one in unit.splitlines() if one.startswith("ExecStart="))
    image = (DEPLOY / "Containerfile").read_text().splitlines()[-1]
    words = json.loads(image.removeprefix("CMD "))
    assert line.split()[1:] == words
    context = app.make_context("veilsum", list(words), resilient_parsing=True)
    name, serve, rest = app.resolve_command(context, words)
    assert (name, "--data" in rest) == ("serve", True)
    made = serve.make_context(name, rest)
    assert made.params["data"].parent == made.params["folder"]


def test_the_relay_is_started_with_options_that_there_are():
    unit = (DEPLOY / "veilsum-relay.service").read_text()
    line = next(one for one in unit.splitlines() if one.startswith("ExecStart="))
    words = line.split()[1:]
    for group in ("relay", "serve"):
        assert words.pop(0) == group
    relay = app.get_command(app.make_context("veilsum", ["relay"]), "relay")
    made = relay.commands["serve"].make_context("serve", words)
    assert made.params["listen"] == "0.0.0.0:443"
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in unit


def test_nothing_is_installed_by_a_name_that_is_on_no_index():
    """Whoever registers the name would run code at whoever copies the line."""
    root = DEPLOY.parent
    pages = [*root.glob("docs/**/*.md"), *DEPLOY.iterdir(), *root.glob("*.md")]
    by_name = re.compile(r"pip install (-U )?['\"]?veilsum")
    told = [one.name for one in pages if by_name.search(one.read_text())]
    assert told == ["CHANGELOG.md"]  # which says what was once said
