"""Speed of the record kernel alone, on one core: rows/s of decode and encode.

    python benchmarks/kernel.py [--rows 1000000] [--payload 100] [--repeat 5] [--pure] [--json]

Records are 106 bytes on the wire (6 bytes of framing and a 100-byte value of JSON-like text, no
key), in batches of 16 KiB, as a default Java producer makes them. Rates are per second of CPU time,
the best of the repeats: other work on the machine disturbs both less than it disturbs the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from array import array
from collections.abc import Callable
from functools import partial

CODECS = {"plain": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def main() -> None:
    arguments = _arguments()
    if arguments.pure:
        os.environ["PARLEY_PURE"] = "1"
    from parley import records

    columns = _columns(arguments.rows, arguments.payload)
    found: dict[str, dict[str, float]] = {}
    for name, codec in CODECS.items():
        options = records.WriteOptions(codec=codec, max_batch_bytes=16_384)
        batches = records.encode_batches(columns, None, options)
        data = b"".join(bytes(batch.data) for batch in batches)
        found[name] = {
            "bytes_per_row": len(data) / arguments.rows,
            "decode_all": _best(arguments, partial(_decode, data, records.Want.ALL)),
            "decode_spark": _best(arguments, partial(_decode, data, _SPARK_WANT, 1000)),
            "decode_value": _best(arguments, partial(_decode, data, records.Want.VALUES)),
            "encode": _best(arguments, partial(_encode, columns, options)),
        }
    if arguments.json:
        print(
            json.dumps(
                {"kernel": records.kernel_info().name, "rows": arguments.rows, "rates": found}
            )
        )
        return
    print(
        f"kernel: {records.kernel_info().name}, {arguments.rows} rows; million rows per "
        "second of one core"
    )
    print(f"{'':8}{'B/row':>8}{'all':>8}{'spark':>8}{'value':>8}{'encode':>8}")
    for name, rates in found.items():
        cells = "".join(
            f"{rates[key] / 1e6:8.2f}"
            for key in ("decode_all", "decode_spark", "decode_value", "encode")
        )
        print(f"{name:8}{rates['bytes_per_row']:8.1f}{cells}")


_SPARK_WANT = 1 | 2 | 4 | 8 | 16


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--pure", action="store_true", help="measure the pure-Python reference")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _columns(rows: int, payload: int):  # type: ignore[no-untyped-def]
    from parley import records

    rng = random.Random(7)
    words = [rng.randbytes(4).hex() for _ in range(500)]
    values = []
    for row in range(rows):
        name, first, second = words[row * 7 % 500], words[row % 499], words[row % 491]
        text = (
            f'{{"id": {row}, "name": "{name}", "tags": ["{first}", "{second}"], "n": '
            f"{row * 2654435761 % 10**12}"
        )
        values.append(text.ljust(payload, "x")[:payload].encode())
    offsets = array("q", range(rows)).tobytes()
    return records.Columns(rows=rows, offsets=offsets, value=records.var_column(values))


def _decode(data: bytes, want: int, scale: int = 1) -> int:
    from parley import records

    options = records.ReadOptions(want=int(want), timestamp_scale=scale)
    return sum(
        chunk.columns.rows
        for chunk in records.decode_columns(data, first_offset=0, options=options)
    )


def _encode(columns, options) -> int:  # type: ignore[no-untyped-def]
    from parley import records

    return sum(batch.records for batch in records.encode_batches(columns, None, options))


def _best(arguments: argparse.Namespace, work: Callable[[], int]) -> float:
    best = 0.0
    for _ in range(arguments.repeat):
        start = time.process_time()
        rows = work()
        elapsed = time.process_time() - start
        best = max(best, rows / elapsed)
    return best


if __name__ == "__main__":
    main()
