"""The public names, once: `__init__.py` loads each from its home on first use."""

from .api import promise_of as promise_of
from .audit_record import (
    AuditRecord as AuditRecord,
    read_audit_record as read_audit_record,
)
from .own_rules import OwnRules as OwnRules, read_own_rules as read_own_rules
from .run_status import RunEvent as RunEvent
from .study_page import consent_to_study as consent_to_study
from .studying import (
    JoinedStudy as JoinedStudy,
    QuestionStatus as QuestionStatus,
    StudyStatus as StudyStatus,
)
from .transcript_file import read_transcript as read_transcript

__all__: list[str]
