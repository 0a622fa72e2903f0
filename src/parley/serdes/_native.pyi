"""Types of the compiled decoder (native-schemas/src/lib.rs)."""

from collections.abc import Sequence

VERSION: str
CONTRACT: int

class Unsupported(ValueError):
    """A plan that only the reference carries out."""

class Columns:
    def __init__(self, layout: tuple[object, ...]) -> None: ...

class Plan:
    def __init__(self, columns: Columns, plan: tuple[object, ...]) -> None: ...

class Writing:
    def __init__(self, plan: tuple[object, ...]) -> None: ...

def encode(writing: Writing, column: object, prefix: bytes) -> object | None: ...
def scan(
    messages: object, marker: bytes, width: int, little: bool
) -> tuple[bytes, list[int], list[int]]: ...
def decode(
    columns: Columns,
    plans: Sequence[Plan | None],
    messages: object,
    groups: bytes | None,
    start: int,
) -> tuple[object, list[tuple[int, str]], list[int]]: ...
