"""Ways for a client to learn what a broker speaks, behind one interface, without I/O.

A strategy is a generator: it yields what to send and is sent what came back. The runner counts
round trips and bytes, so that the designs can be compared on the same wire.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

from parley.drafts.messages import (
    decode_draft_response,
    documented_metadata,
    draft_metadata,
    encode_draft_request,
)
from parley.drafts.numbering import documented_ranges, wrongly_deduced
from parley.errors import KafkaError, RemoteProtocolError
from parley.messages import encode_request
from parley.protocol.negotiation import Negotiation, canary_request
from parley.schema import ApiKey, VersionRange
from parley.versions import CLIENT_RANGES, BrokerVersions

CLIENT_ID = "parley-discovery"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Frames to send in one go, and answers to wait for. `reconnect`: freshly connected."""

    frames: tuple[bytes, ...]
    answers: int = 1
    reconnect: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What came back: whole frames; `closed` or `silent` say why there are fewer than expected."""

    frames: tuple[memoryview, ...] = ()
    closed: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy found out. `ranges` is empty where it learnt nothing."""

    summary: str
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)


Steps = Generator[Exchange, Answers, Outcome]
Strategy = Callable[[], Steps]


def accepted() -> Steps:
    """KIP-35: ApiVersions, newest first, v0 after error 35; ListGroups finds a silent 0.9."""
    negotiation = Negotiation(CLIENT_RANGES[ApiKey.API_VERSIONS], "parley", "discovery")
    correlation_id = 0
    while True:
        asked = encode_request(
            negotiation.request(), negotiation.version, correlation_id, CLIENT_ID
        )
        frames = (b"".join(asked), b"".join(canary_request(correlation_id + 1, CLIENT_ID)))
        first = correlation_id == 0
        answers = yield Exchange(frames if first else frames[:1], answers=2 if first else 1)
        if not answers.frames:
            return Outcome("nothing: " + _why(answers))
        if _correlation_id(answers.frames[0]) != correlation_id:
            ranges = BrokerVersions.fixed_pre_0_10().ranges
            return Outcome("older than 0.10: the second request was answered first", ranges)
        try:
            found = negotiation.answered(answers.frames[0][4:])
        except KafkaError as error:
            return Outcome(f"nothing: {error}")
        if found is not None:
            return Outcome(f"ApiVersions v{negotiation.version}", found.ranges)
        correlation_id += 2


def draft() -> Steps:
    """KIP-35's draft: Metadata v1, all keys, no topics; one version up after a close."""
    return (yield from _metadata_with_versions((1, 2)))


def option_2() -> Steps:
    """Option 2 of the accepted page: the same message; one version down after a close."""
    return (yield from _metadata_with_versions((2, 1, 0)))


def option_3() -> Steps:
    """Option 3: Metadata v2 names the release's page, and the page says the rest."""
    request, response = documented_metadata()
    answers = yield Exchange((encode_draft_request(request(topics=None), 2, 0, CLIENT_ID),))
    if not answers.frames:
        return Outcome("nothing: " + _why(answers))
    try:
        answer = decode_draft_response(response, 2, answers.frames[0][4:])
        ranges = documented_ranges(answer.protocol_version)  # a field of the notation
    except RemoteProtocolError:
        return Outcome("nothing: the answer is not option 3's")
    wrong = wrongly_deduced(answer.protocol_version)
    summary = f"protocol version {answer.protocol_version}"
    if wrong:
        summary += (
            f"; minimal numbers would promise {len(wrong)} features that it lost ({wrong[0].value})"
        )
    return Outcome(summary, ranges)


def empty_answers() -> Steps:
    """The sub-proposal: no body means "not supported by the server"; the connection stays."""
    newest = CLIENT_RANGES[ApiKey.API_VERSIONS].max
    for version in range(newest, -1, -1):
        negotiation = Negotiation(VersionRange(0, version), "parley", "discovery")
        asked = b"".join(encode_request(negotiation.request(), version, version, CLIENT_ID))
        answers = yield Exchange((asked,))
        if not answers.frames:
            return Outcome("nothing: " + _why(answers))
        if len(answers.frames[0]) == 4:
            continue  # the request type or its version is not supported by the server
        try:
            found = negotiation.answered(answers.frames[0][4:])
        except KafkaError as error:
            return Outcome(f"nothing: {error}")
        if found is not None:
            return Outcome(f"ApiVersions v{version}", found.ranges)
    return Outcome("ApiVersions is not supported by the server")


def _metadata_with_versions(versions: tuple[int, ...]) -> Steps:
    request, response = draft_metadata()
    tried = []
    for version in versions:
        tried.append(f"v{version}")
        if version == 0:
            return Outcome(
                f"nothing: Metadata {', '.join(tried[:-1])} closed the connection, v0 "
                "carries no versions"
            )
        asked = encode_draft_request(request(api_keys=[], topics=None), version, version, CLIENT_ID)
        answers = yield Exchange((asked,), reconnect=len(tried) > 1)
        if answers.silent:
            return Outcome("nothing: " + _why(answers))
        if answers.closed or not answers.frames:
            continue
        try:
            answer = decode_draft_response(response, version, answers.frames[0][4:])
        except RemoteProtocolError:
            return Outcome("nothing: the answer is not the draft's")
        ranges = {e.api_key: (e.min_version, e.max_version) for e in answer.api_versions}
        return Outcome(f"Metadata v{version}", ranges)
    return Outcome(
        f"nothing: Metadata {', '.join(tried)} closed the connection; is it the version, or "
        "something else?"
    )


def _correlation_id(frame: memoryview) -> int:
    return int.from_bytes(frame[:4], "big", signed=True)


def _why(answers: Answers) -> str:
    return "the broker stayed silent" if answers.silent else "the broker closed the connection"


STRATEGIES: dict[str, Strategy] = {
    "accepted": accepted,
    "draft-30": draft,
    "option-2": option_2,
    "option-3": option_3,
    "empty-answers": empty_answers,
}
"""Every strategy by the name that the command line shows."""
