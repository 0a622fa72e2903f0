"""The long run: `python -m parley_laboratory.hostile --inputs 1000000`; exit status
1 when there was a breach.
"""

from __future__ import annotations

import argparse
import sys

from parley_laboratory.hostile import (
    attack_brokers,
    attack_kernels,
    attack_messages,
    attack_readers,
    attack_whole_clients,
)

KERNEL_FLOODS_PER_INPUT, MESSAGE_FLOODS_PER_INPUT = 1 / 10, 1 / 20
"""Floods are larger than other inputs."""

CALLS_PER_INPUT = 1 / 500
"""A whole client's round costs as much as hundreds of single inputs."""


def main() -> int:
    """Attack both ways, print the accounts, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--inputs", type=int, default=20_000, help="inputs each way (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="every input follows from it (default: %(default)s)"
    )
    chosen = parser.parse_args()
    breaches = 0
    for title, attack, count in (
        ("at what a client reads", attack_readers, chosen.inputs),
        ("at embedded brokers", attack_brokers, chosen.inputs),
        ("at both kernels, floods", attack_kernels, int(chosen.inputs * KERNEL_FLOODS_PER_INPUT)),
        ("at decoders of messages", attack_messages, int(chosen.inputs * MESSAGE_FLOODS_PER_INPUT)),
        ("at whole clients, calls", attack_whole_clients, int(chosen.inputs * CALLS_PER_INPUT)),
    ):
        account = attack(count, chosen.seed)
        print(account.text(title), flush=True)
        breaches += len(account.breaches)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
