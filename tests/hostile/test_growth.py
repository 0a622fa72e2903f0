"""What hostile record sets cost: never more than
their bytes, and those they may decompress to, allow.

Two things are measured, in processor time of this process, the best of several runs:

- growth: sixteen times the bytes may take sixteen times as long, and something for caches and fresh
  pages; a quadratic algorithm takes 256 times as long. (Eight times and 64 for the pure kernel,
  which is slow.)
- price: the time per byte against that of ordinary record sets of the same kind. Bytes are those
  that come in and those that are handed out. A compressed batch may become 64 times its size
  without anybody asking (`batch_limit`), so a decompressor that yields nothing may take as long as
  one that yields so much.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from parley.errors import CorruptRecordError
from parley.kernel.contract import DEFAULT_BATCH_RATIO, KernelError, KernelErrorKind, batch_limit
from parley.kernel.functions import Kernel
from parley.records import Columns, VarColumn, decode_columns
from parley_laboratory.hostile import codec_shapes, record_shapes
from parley_laboratory.hostile.record_shapes import RecordSet, Shape

KERNELS = ("native", "reference")
TIMES = {"rust": 16, "python": 8}
SLACK = 3.5
PRICE = 5.0
ROUNDS = 6
"""A machine that does something else beside makes a measurement worse,
never better: it is repeated.
"""

LEAST_SECONDS = 1e-6
"""What counts as nothing."""


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Both kernels, and `records` with each."""
    try:
        found: Kernel = importlib.import_module(f"parley.kernel.{request.param}")
    except ImportError:
        pytest.skip("the compiled kernel is not built")
    for name, module in list(sys.modules.items()):
        if name.startswith("parley.records.") and hasattr(module, "active"):
            monkeypatch.setattr(module, "active", found)
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of one run."""
    begun = time.process_time()
    work()
    return max(time.process_time() - begun, LEAST_SECONDS)


def ratio(small: Callable[[], object], large: Callable[[], object], most: float) -> float:
    """Return how many times as long the second takes, the best times of up
    to ROUNDS runs compared.
    """
    best_small = best_large = float("inf")
    found = 0.0
    for turn in range(ROUNDS):
        for _ in range(2):  # the first run of something small finds caches cold
            best_small = min(best_small, seconds(small))
        best_large = min(best_large, seconds(large))
        found = best_large / best_small
        if turn and found <= most:
            break
    return found


def decompressed(kernel: Kernel, codec: int, packed: bytes) -> int:
    """Return how many bytes come out: all that may where these are too many, none
    where the kernel refuses.
    """
    most = batch_limit(len(packed), 0)
    try:
        return memoryview(kernel.decompress(codec, packed, most, 2)).nbytes
    except KernelError as error:
        return most if error.kind is KernelErrorKind.TOO_LARGE else 0


def sizes(columns: Columns) -> Iterator[int]:
    """Yield the bytes of each buffer."""
    headers = columns.headers
    plain = [
        columns.offsets,
        columns.timestamps,
        columns.timestamp_types,
        headers and headers.offsets,
    ]
    var = [columns.key, columns.value, *((headers.keys, headers.values) if headers else ())]
    for column in var:
        if isinstance(column, VarColumn):
            plain += [column.validity, column.offsets, column.data]
    yield from (memoryview(buffer).nbytes for buffer in plain if buffer is not None)


def read(found: RecordSet) -> tuple[int, int]:
    """Read a record set; return how many bytes of columns came out, and how many at once."""
    total = most = 0
    try:
        for chunk in decode_columns(found.data, first_offset=0, aborted=found.aborted or None):
            size = sum(sizes(chunk.columns))
            total, most = total + size, max(most, size)
    except CorruptRecordError:
        pass
    return total, most


def touched(found: RecordSet, shape: Shape) -> int:
    """Return how many bytes of a Fetch's answer it is, and of columns where the shape
    is not there to have none.
    """
    return len(found.data) + 16 * len(found.aborted) + (0 if shape.hides else read(found)[0])


@pytest.mark.parametrize("name", codec_shapes.SHAPES)
def test_decompressing_grows_with_the_bytes(kernel: Kernel, name: str) -> None:
    codec, make = codec_shapes.SHAPES[name]
    size = 96_000 if kernel.NAME == "rust" else 4_000
    times = TIMES[kernel.NAME]
    small, large = make(size), make(times * size)
    # What becomes much more is measured by what it becomes:
    # pages that are touched for the first time cost most.
    outcome = [
        max(DEFAULT_BATCH_RATIO * len(packed), decompressed(kernel, codec, packed))
        for packed in (small, large)
    ]
    allowed = SLACK * max(times, outcome[1] / outcome[0])
    found = ratio(
        lambda: decompressed(kernel, codec, small),
        lambda: decompressed(kernel, codec, large),
        allowed,
    )
    assert found <= allowed, f"{times} times the bytes take {found:.0f} times as long"


@pytest.mark.parametrize("name", record_shapes.SHAPES)
def test_reading_grows_with_the_bytes(kernel: Kernel, name: str) -> None:
    make = record_shapes.SHAPES[name].make
    size = 60_000 if kernel.NAME == "rust" else 3_000
    times = TIMES[kernel.NAME]
    small, large = make(size), make(times * size)
    found = ratio(lambda: read(small), lambda: read(large), SLACK * times)
    assert found <= SLACK * times, f"{times} times the bytes take {found:.0f} times as long"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The compiled kernel: what the other one takes for a byte is the interpreter's."""
    found: Kernel = pytest.importorskip("parley.kernel.native", exc_type=ImportError)
    return found


@pytest.mark.long  # a ratio of times: it is asked of a quiet machine
@pytest.mark.parametrize("name", codec_shapes.SHAPES)
def test_decompressing_takes_no_more_than_five_times_as_long(compiled: Kernel, name: str) -> None:
    codec, make = codec_shapes.SHAPES[name]
    text = codec_shapes.ordinary(2_000_000)
    usual, flood = bytes(compiled.compress(codec, text, None, 2)), make(100_000)
    allowance = max(DEFAULT_BATCH_RATIO * len(flood), decompressed(compiled, codec, flood))
    per_byte = len(text) / allowance
    most = PRICE / per_byte
    found = ratio(
        lambda: decompressed(compiled, codec, usual),
        lambda: decompressed(compiled, codec, flood),
        most,
    )
    assert found <= most, f"a byte takes {found * per_byte:.1f} times as long as usual"


@pytest.mark.long  # a ratio of times: it is asked of a quiet machine
@pytest.mark.parametrize("name", record_shapes.SHAPES)
def test_reading_takes_no_more_than_five_times_as_long(compiled: Kernel, name: str) -> None:
    shape = record_shapes.SHAPES[name]
    usual, flood = shape.yardstick(300_000), shape.make(300_000)
    per_byte = touched(usual, shape) / touched(flood, shape)
    most = PRICE / per_byte
    found = ratio(lambda: read(usual), lambda: read(flood), most)
    assert found <= most, f"a byte takes {found * per_byte:.1f} times as long as usual"


@pytest.mark.parametrize("name", record_shapes.SHAPES)
def test_what_is_held_at_once_is_bounded(kernel: Kernel, name: str) -> None:
    found = record_shapes.SHAPES[name].make(2_000_000 if kernel.NAME == "rust" else 20_000)
    most = read(found)[1]
    rows = 65_536 * 48  # all columns of as many rows as are decoded at once
    assert most <= 8 * len(found.data) + rows, f"{most} bytes of {len(found.data)}"
