"""What members of a consortium compare, and a program whose English is another."""

import json
import subprocess
import sys
from pathlib import Path

from veilsum.files.output import as_strict_json
from veilsum.locale import values_without_locale_words
from veilsum.party.consent import consent_to
from veilsum.party.replay import plan_to_replay
from veilsum.sums.kinds import resolve_agreed_question

# Comes before a program, and changes every entry of every catalogue.
REWORDED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from veilsum import locale

def reworded(entry):
    if isinstance(entry, dict):
        return {{k: reworded(v) for k, v in entry.items()}}
    return [*map(reworded, entry)] if isinstance(entry, list) else f"~{{entry}}~"

known = locale.catalogue
locale.catalogue = lambda *given: reworded(known(*given))
"""


def run_python(*words):
    """Return the exit status, the output and the errors of a program."""
    ended = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def agreed_digests(consortium):
    """Return what receipts hold of a consortium before anything is summed."""
    asked = resolve_agreed_question(consortium)
    first = [asked.recipe.release(())]
    promise = asked.recipe.stated(asked.terms.guarantee, first).to_dict()
    lines = asked.recipe.shown(consortium.topology.parties, first)
    return {
        "plan": plan_to_replay(consortium, asked).digest.hex(),
        "consent": consent_to(consortium).digest,
        "promise": values_without_locale_words(json.loads(as_strict_json(promise))),
        "released": [dict(line.facts) for line in lines],
    }


def sentences_of_terms(consortium):
    """Return strings with a space in a plan's terms that are not of the file.

    A formula may join two of the file's.
    """
    plan = plan_to_replay(consortium, resolve_agreed_question(consortium))
    terms = json.loads(plan.terms)
    known = {*strings_in(consortium.to_table()), terms.get("formula")}
    return {one for one in strings_in(terms) if " " in one} - known


def strings_in(value):
    """Yield all strings of plain values, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.items():
            yield from strings_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings_in(each)
