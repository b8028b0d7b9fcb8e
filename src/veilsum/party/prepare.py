"""Everything that a party does before anything is sent, for a run or for a study.

`prepare_party` reads, checks and resolves. The value that it returns has the page, and
runs.
"""

from __future__ import annotations

from veilsum.consortium.consortium import Consortium
from veilsum.errors import InvalidInputError
from veilsum.net.amendment import Agreement, check_amendment
from veilsum.net.identity import Identity
from veilsum.party.run import Inputs, PreparedRun, prepare_run
from veilsum.party.studying import PreparedStudy, prepare_study


def prepare_party(
    agreed: Agreement, identity: Identity, inputs: Inputs
) -> PreparedRun | PreparedStudy:
    """Return a run, or a study, that a party is ready for; nothing is sent.

    Args:
        agreed: the consortium file, or a study's, as it was read.
        identity: of the party.
        inputs: the party's own side, with the path of the file.

    Raises:
        InvalidInputError: this party cannot take part with these inputs.
    """
    if inputs.file is not None:
        check_amendment(inputs.file, agreed)
    elif agreed.former:
        raise InvalidInputError(
            "this consortium amends an earlier one, and whether its members said yes "
            "to that stands beside its file: give the file's path",
            code="path-needed",
        )
    if isinstance(agreed, Consortium):
        if inputs.without:
            raise InvalidInputError(
                "--without only applies to studies; this file asks a single question",
                code="option-for-studies",
            )
        return prepare_run(agreed, identity, inputs)
    if inputs.state is not None:
        raise InvalidInputError(
            "--state names the file of one run, and a study has one for each "
            "question, beside the key: leave --state out",
            code="option-not-for-studies",
        )
    return prepare_study(agreed, identity, inputs)
