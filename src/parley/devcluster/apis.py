"""Which APIs the embedded cluster acts on, and what it answers to the others: one table."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from parley.devcluster.handlers import MODULES, REFUSALS, SERVED
from parley.devcluster.release.profile import make_profile
from parley.errors.broker import error_codes
from parley.errors.codes import NONE
from parley.schema import ApiKey, VersionRange, load

NOT_IMPLEMENTED = "\n\nNot implemented:"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """One API: the versions that are answered, and how.

    `answer` is served (acted on), empty (a valid answer with nothing in it) or refused; `errors`
    are those of an API that is not acted on.
    """

    key: int
    name: str
    versions: VersionRange
    answer: str
    errors: tuple[str, ...]
    note: str


def api_answers(release: str | None = None) -> list[ApiAnswer]:
    """Return what is answered, by key: the APIs that a release advertises, without one all of them.

    Raises ConfigError for a release that is not known.

    >>> [str(api.versions) for api in api_answers("2.4") if api.name == "Fetch"]
    ['0-11']
    """
    profile = None if release is None else make_profile(release, SERVED)
    ranges = SERVED if profile is None else profile.ranges
    notes = {int(module.API.key): _missing_parts(module.__doc__ or "") for module in MODULES}
    found = []
    errors: tuple[str, ...]
    for key, versions in sorted(ranges.items()):
        answer, note, errors = "served", notes.get(key, ""), ()
        if key not in notes:
            refusal = REFUSALS[key]
            answer = "empty" if NONE in refusal.codes else "refused"
            errors, note = tuple(_error(code) for code in refusal.codes if code), refusal.why
        lie = None if profile is None else profile.behaviour.closes.get(key)
        if lie is not None:
            note = f"v{lie} are advertised and close the connection, as real brokers do. {note}"
        found.append(ApiAnswer(key, load(ApiKey(key)).name, versions, answer, errors, note))
    return found


def _error(code: int) -> str:
    return f"{code} {error_codes()[code].name}"


def _missing_parts(doc: str) -> str:
    """Return what a handler's text says is not implemented, as one line."""
    text = " ".join(inspect.cleandoc(doc).partition(NOT_IMPLEMENTED)[2].split())
    return "" if text in ("", "-") else f"without {text.removesuffix('.')}"
