"""The SASL mechanisms that parley speaks, by name, in the order in which Kafka got them."""

from __future__ import annotations

from parley.protocol.sasl.base import Mechanism
from parley.protocol.sasl.oauthbearer import OAUTHBEARER
from parley.protocol.sasl.plain import PLAIN
from parley.protocol.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512

MECHANISMS: dict[str, Mechanism] = {
    one.name: one for one in (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
}
