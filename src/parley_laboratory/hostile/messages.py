"""Messages that decode and cost much: floods of every shape, at what both ends
decode, refused or within bounds.
"""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

from parley.errors import RemoteProtocolError
from parley.messages import Message, decode_at, request_class, response_class
from parley.schema import ApiKey
from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.hostile.mutations import Mutator
from parley_laboratory.shapes import nested, shapes

SIZES = (100, 3_000, 40_000)
MOST_US_PER_BYTE = 10.0
"""Far above any machine's: a quadratic decoder is found, a busy machine is not."""
FREE_US = 50_000


def attack_messages(inputs: int, seed: int) -> HostileAccount:
    """Decode floods of every API, half of them bent, and return what became of each.

    A breach: an exception that is not RemoteProtocolError, or processor time out of proportion to
    the size.
    """
    rng = Random(seed)
    account, mutator = HostileAccount(seed), Mutator(rng)
    number = 0
    while number < inputs:
        message = rng.choice((request_class, response_class))(rng.choice(list(ApiKey)))
        versions, size = message.SCHEMA.valid_versions, rng.choice(SIZES)
        version = rng.randint(versions.min, versions.max)
        made = {**shapes(message, version, size), **nested(message, version, size)}
        for name, data in list(made.items())[: inputs - number]:
            bent = mutator.mutated(data) if rng.random() < 0.5 else data
            what = f"{message.__name__} v{version}, {name}"
            try:
                decode_at(message, version, bent)
                account.outcomes["decoded"] += 1
            except RemoteProtocolError:
                account.outcomes["refused: RemoteProtocolError"] += 1
            except Exception as error:
                account.outcomes["breach"] += 1
                account.breach(number, f"{what} raised {type(error).__name__}: {error}")
            taken_us = _least_us(message, version, bent, FREE_US + MOST_US_PER_BYTE * len(bent))
            if taken_us > FREE_US + MOST_US_PER_BYTE * len(bent):
                account.breach(number, f"{what}: {len(bent)} bytes took {taken_us / 1e6:.1f} s")
            number += 1
        if not made:  # a message without arrays and tags
            account.outcomes["nothing to flood"] += 1
            number += 1
    return account.close()


def _least_us(message: type[Message], version: int, data: bytes, enough_us: float) -> float:
    """Return the thread's time for a decoding; the least of a few, for the
    collector may run in one of them.
    """
    least = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        with suppress(Exception):  # what it raises was looked at before, when the decoder was made
            decode_at(message, version, data)
        least = min(least, (time.thread_time() - begun) * 1e6)
        if least <= enough_us:
            break
    return least
