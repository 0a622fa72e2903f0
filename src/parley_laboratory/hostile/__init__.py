"""Hostile bytes by the million, both ways: at what a client reads, at what an embedded broker
reads, and at both record kernels.

`python -m parley_laboratory.hostile --inputs 1000000` is the long run; every input follows from the
seed.
"""

from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.hostile.brokers import attack_brokers
from parley_laboratory.hostile.kernels import attack_kernels
from parley_laboratory.hostile.messages import attack_messages
from parley_laboratory.hostile.mutations import Mutator
from parley_laboratory.hostile.readers import attack_readers
from parley_laboratory.hostile.whole_client import attack_whole_clients

__all__ = [
    "HostileAccount",
    "Mutator",
    "attack_brokers",
    "attack_kernels",
    "attack_messages",
    "attack_readers",
    "attack_whole_clients",
]
