"""Apache Kafka's own classes understand what parley encodes, and would have written the same bytes.

Every API, request and response, in every version that one of the jars has: parley encodes arbitrary
messages, Java decodes and re-encodes them. A field of the wrong width, in the wrong place, wrongly
nullable, compact or tagged cannot come back as the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TypeAlias

import pytest

from parley.messages import (
    Message,
    OffsetFetchRequest,
    data_class,
    decode_body,
    encode_body,
    request_class,
    response_class,
)
from parley_laboratory.samples import SampleMaker

MESSAGES_EACH = 12
RunJava: TypeAlias = Callable[..., bytes]

pytestmark = [pytest.mark.jars, pytest.mark.timeout(300)]


def ask(
    run_java: RunJava, class_path: str, questions: list[tuple[type[Message], int, bytes]]
) -> list[bytes | str]:
    """Return for each question the bytes that Java makes of it, or the text of its exception."""
    sent = bytearray()
    for message, version, data in questions:
        if message.API_KEY is None:
            name = message.__name__.encode()
            sent += struct.pack(">hbhh", -1, 0, version, len(name)) + name
        else:
            sent += struct.pack(">hbh", message.API_KEY, message.IS_REQUEST, version)
        sent += struct.pack(">i", len(data)) + data
    return list(_answers(run_java(class_path, "Oracle.java", bytes(sent))))


def _answers(data: bytes) -> Iterator[bytes | str]:
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size >= 0:
            yield data[position : position + size]
        else:
            (size,) = struct.unpack_from(">i", data, position)
            position += 4
            yield data[position : position + size].decode()
        position += size


def show(answer: bytes | str) -> str:
    return answer.hex() if isinstance(answer, bytes) else answer


def classes_in(jar: Path, definitions: ModuleType) -> Iterator[tuple[type[Message], list[int]]]:
    """Yield the messages that a jar has classes for, with the versions it has."""
    for definition in definitions.read_jar(jar):
        facts = definitions.message_facts(definition)
        if facts is None or facts.kind == "header":
            continue
        if facts.kind == "data":
            yield data_class(facts.name), sorted(facts.versions)
        else:
            find = request_class if facts.kind == "request" else response_class
            yield find(facts.api_key), sorted(facts.versions)


# 3.9.1 carried version 0 of this response as a draft that 4.3.0 changed; parley has the newer one.
REDEFINED = {("3.9.1", "ReadShareGroupStateSummaryResponse", 0)}


@pytest.mark.parametrize("release", ["3.9.1", "4.3.0"])
def test_java_reencodes_every_message_to_the_same_bytes(
    release: str,
    clients_jars: dict[str, Path],
    clients_class_paths: dict[str, str],
    run_java: RunJava,
    tools: dict[str, ModuleType],
) -> None:
    questions = []
    for message, versions in classes_in(clients_jars[release], tools["definitions"]):
        for version in versions:
            if (release, message.__name__, version) in REDEFINED:
                continue
            maker = SampleMaker(Random(f"{message.__name__} {version}"))
            samples = [message(), *(maker.message(message, version) for _ in range(MESSAGES_EACH))]
            for sample in samples:
                data = b"".join(encode_body(sample, version))
                assert decode_body(message, version, data) == sample
                questions.append((message, version, data))
    answers = ask(run_java, clients_class_paths[release], questions)
    assert len(answers) == len(questions)
    wrong = [
        f"{message.__name__} v{version}: {data.hex():.400} became {show(answer):.400}"
        for (message, version, data), answer in zip(questions, answers, strict=True)
        if answer != data
    ]
    assert not wrong, f"{len(wrong)} of {len(questions)} differ, for example\n" + "\n".join(
        wrong[:5]
    )
    assert len({(message, version) for message, version, _ in questions}) > 400


@pytest.mark.parametrize("release", ["4.3.0"])
def test_oracle_sees_a_wrong_byte(
    release: str, clients_class_paths: dict[str, str], run_java: RunJava
) -> None:
    """The oracle can fail: a byte too many, a byte too few, another version."""
    message = OffsetFetchRequest
    data = b"".join(encode_body(message(groups=[message.OffsetFetchRequestGroup(group_id="g")]), 8))
    answers = ask(
        run_java,
        clients_class_paths[release],
        [
            (message, 8, data),
            (message, 8, data + b"\x00"),
            (message, 8, data[:-1]),
            (message, 9, data),
        ],
    )
    assert answers[0] == data
    assert [isinstance(answer, str) for answer in answers[1:]] == [True, True, True]
