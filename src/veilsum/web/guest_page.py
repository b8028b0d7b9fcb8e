"""The page of one visit: as files that a host serves, or as one file to save and open.

Whoever serves a page can change it for one guest. The one file cannot be changed once
its hash is in the invitation: it holds the survey with the delegates' keys, all scripts
and styles, and its policy lets the browser run these alone and speak to one address.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from math import gcd
from urllib.parse import urlsplit

from veilsum.errors import InvalidInputError
from veilsum.surveys.terms import SurveyTerms

PACKAGE = files("veilsum.web")
SURVEY = '<script type="application/json" id="survey" data-submissions="submissions">'
STYLE = '<link rel="stylesheet" href="static/guest.css">'
SCRIPT = '<script type="module" src="static/guest.js"></script>'
# Modules in an order in which each imports only from those before it.
MODULES = (
    "vendor/hpke.js",
    "static/words.js",
    "static/sealing.js",
    "static/reading.js",
    "static/guest.js",
)
# What a host serves under these names, beside the page.
SERVED = (*MODULES, "static/guest.css")
IMPORT = re.compile(r'^import \{([^}]*)\} from "(?:\.\.?/)+([^"]+)";$', re.MULTILINE)
EXPORTED = re.compile(
    r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE
)
EXPORT_LIST = re.compile(r"^export \{([^}]*)\};?$", re.MULTILINE)


def page_survey(terms: SurveyTerms) -> str:
    """Return what the page is told about a survey, as JSON.

    Numbers are texts: a browser would read large ones as the nearest float.

    Raises:
        InvalidInputError: the unit is no decimal, such as a third: nobody can type it.
    """
    places, rest = 0, terms.unit.denominator
    while rest > 1 and places < 30:
        places, rest = places + 1, rest // gcd(rest, 10)
    if rest > 1:
        raise InvalidInputError(
            f"guests type decimals, and the unit {terms.unit} is none: take one such "
            "as 0.01",
            code="unit-not-decimal",
        )
    whole = terms.unit.numerator * 10**places // terms.unit.denominator
    told = {
        "digest": terms.digest,
        "title": terms.title,
        "unit": f"{whole}e-{places}",
        "rows": terms.rows,
        "columns": terms.columns,
        "low": repr(terms.low),
        "high": repr(terms.high),
        "minimum_guests": terms.minimum_guests,
        "minimum_honest": terms.minimum_honest,
        "tolerate": terms.tolerate,
        "tolerate_guests": terms.tolerate_guests,
        "closes": terms.closes,
        "members": terms.names,
        "delegates": [{"name": n, "key": key.hex()} for n, key in terms.delegates],
        "guests": [{"name": one.name, "key": one.key.hex()} for one in terms.guests],
    }
    return json.dumps(told, ensure_ascii=False)


def served_page(survey_json: str) -> str:
    """Return the page with its survey in it, for a host that serves the other files.

    They lie beside it as `static/` and `vendor/`, as in this package.
    """
    return _guest_page_with_survey(
        _guest_page_file_text("static/guest.html"), survey_json, "submissions"
    )


def guest_page_as_single_file(survey_json: str, post_to: str) -> str:
    """Return the page as one file that needs no other.

    Args:
        survey_json: what the page is told about the survey.
        post_to: where submissions are posted, as a whole address; under it, after a
            slash and the guest's key, the page asks which number has arrived.

    Returns:
        HTML whose UTF-8 bytes are hashed into the invitation.
    """
    parts = urlsplit(post_to)
    plain = re.fullmatch(r"https?://[A-Za-z0-9.:\[\]_-]+/[A-Za-z0-9/._~-]+", post_to)
    if plain is None or not parts.hostname:
        raise InvalidInputError(
            "the address to post submissions to must be whole, such as "
            f"https://survey.example/s/submissions, not {post_to!r}",
            code="address-not-whole",
        )
    script, style = (
        _guest_page_script(),
        "\n" + _guest_page_file_text("static/guest.css"),
    )
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_guest_page_hash_source(script)}",
            f"style-src {_guest_page_hash_source(style)}",
            f"connect-src {post_to} {post_to}/",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    page = _guest_page_file_text("static/guest.html")
    for old, new in (
        (
            '<meta charset="utf-8">',
            '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
            f'content="{policy}">',
        ),
        (STYLE, f"<style>{style}</style>"),
        (SCRIPT, f'<script type="module">{script}</script>'),
    ):
        assert page.count(old) == 1
        page = page.replace(old, new)
    return _guest_page_with_survey(page, survey_json, post_to)


def _guest_page_file_text(name: str) -> str:
    return PACKAGE.joinpath(name).read_text(encoding="utf-8")


def _guest_page_with_survey(page: str, survey_json: str, post_to: str) -> str:
    try:
        json.loads(survey_json)
    except ValueError as error:
        raise InvalidInputError(
            f"the survey is not JSON: {error}", code="not-json"
        ) from error
    # Within a script element nothing ends it but "</script": with no "<", nothing does.
    survey = survey_json.replace("<", "\\u003c")
    tag = SURVEY.replace('"submissions"', f'"{post_to}"')
    assert page.count(SURVEY) == 1
    return page.replace(SURVEY, tag + survey)


def _guest_page_hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _guest_page_script() -> str:
    """Return all modules as one, each in a scope of its own.

    This understands the few forms of import and export that these modules use, and
    refuses others: a browser that opens a file loads no second one.
    """
    whole = []
    for name in MODULES:
        text = _guest_page_file_text(name)
        names = EXPORTED.findall(text)
        text = EXPORTED.sub("", text)
        for listed in EXPORT_LIST.findall(text):
            names += re.findall(r"\w+", listed)
        text = EXPORT_LIST.sub("", text)
        text = IMPORT.sub(
            lambda found: (
                f"const {{{found[1]}}} = {_guest_page_module_name(found[2])};"
            ),
            text,
        )
        if re.search(r"^(import|export)\b", text, re.MULTILINE):
            raise AssertionError(f"{name} imports or exports in a form unknown here")
        if re.search(r"</script|<!--", text, re.IGNORECASE):
            raise AssertionError(f"{name} would end the script that it is put into")
        given = ", ".join(names)
        inside = f"{text}\nreturn {{ {given} }};"
        whole.append(
            f"const {_guest_page_module_name(name)} = (() => {{\n{inside}\n}})();"
        )
    return "\n" + "\n".join(whole) + "\n"


def _guest_page_module_name(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".js") + "_module"
