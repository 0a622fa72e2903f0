"""Capture golden bytes from real brokers into tests/golden (needs mvn and a JDK 17).

    python tools/capture_golden.py PART [RELEASE ...]

    records     what Java producers and brokers store
    exchanges   requests with the answers of real brokers
    services    the same for groups, transactions and administration

Run it when a release or an API is added; look at the difference before committing it. Ports, ids
and clocks differ from run to run, so bytes are expected to change even where nothing is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from parley_laboratory.golden import write_exchanges, write_logs

sys.path.insert(0, str(Path(__file__).parent))

FOLDER = Path(__file__).parents[1] / "tests" / "golden"
RECORD_RELEASES = ("0.9.0.1", "0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
EXCHANGE_RELEASES = ("0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["records", "exchanges", "services"])
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    arguments = parser.parse_args()
    folder = FOLDER / ("records" if arguments.what == "records" else "exchanges")
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.what == "records":
        import golden_records

        for release in arguments.releases or RECORD_RELEASES:
            logs = golden_records.capture(release)
            write_logs(folder / release, logs)
            print(
                f"{release}: {len(logs)} logs, {sum(len(log.data) for log in logs)} bytes",
                flush=True,
            )
    else:
        import golden_exchanges

        for release in arguments.releases or EXCHANGE_RELEASES:
            made = {
                "exchanges": golden_exchanges.capture,
                "services": golden_exchanges.capture_services,
            }
            exchanges = made[arguments.what](release)
            write_exchanges(
                folder / (release if arguments.what == "exchanges" else f"{release}-services"),
                exchanges,
            )
            print(f"{release}: {len(exchanges)} exchanges", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
