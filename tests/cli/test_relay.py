"""`veilsum relay`: what it makes, and what it refuses before it listens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from click.testing import CliRunner

from cases import each
from net.village import HOST, free_port
from veilsum.cli.app import app
from veilsum.net.relay_tokens import read_token, token_digest

DIGEST = "0" * 64


def call(*words):
    return CliRunner().invoke(app, ["relay", *map(str, words)])


def test_a_token_is_made_once(tmp_path):
    path = tmp_path / "relay.token"
    made = call("token", "-o", path)
    assert made.exit_code == 0
    assert token_digest(read_token(path)) in made.stdout
    assert read_token(path) not in made.stdout
    again = call("token", "-o", path, "--json")
    assert again.exit_code == 2
    assert "exists already" in again.output
    other = call("token", "-o", tmp_path / "other", "--json")
    assert len(json.loads(other.stdout)["sha256"]) == 64


@each(
    ("options", "words"),
    [
        (["--admit", "x", "--behind-proxy"], "--admit takes the SHA-256"),
        (["--admit", DIGEST], "a relay speaks TLS"),
        (["--admit", DIGEST, "--certificate", "none.crt"], "a relay speaks TLS"),
        (
            ["--admit", DIGEST, "--certificate", "none.crt", "--key", "none.key"],
            "cannot use none.crt with none.key",
        ),
        (["--admit", DIGEST, "--behind-proxy", "--per-run", "0"], "per_run = 0"),
        ([], "Missing option '--admit'"),
    ],
)
def test_what_cannot_serve_is_refused(options, words):
    found = call("serve", "--listen", "127.0.0.1:1", *options)
    assert found.exit_code == 2
    assert words in found.output


def test_without_tls_it_listens_on_this_machine_only():
    given = ["--admit", DIGEST, "--behind-proxy"]
    found = call("serve", "--listen", "0.0.0.0:8080", *given)
    assert found.exit_code == 2
    assert "on this machine only" in found.output


def test_it_ends_when_it_is_told_to():
    port = free_port()
    command = ["-m", "veilsum", "relay", "serve", "--behind-proxy", "--json"]
    where = ["--listen", f"{HOST}:{port}", "--admit", DIGEST]
    process = subprocess.Popen(
        [sys.executable, *command, *where], stderr=subprocess.PIPE, text=True
    )
    with process:
        assert json.loads(process.stderr.readline())["event"] == "listening"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
