"""What a registry refuses, with Confluent's numbers and words."""

from __future__ import annotations

from collections.abc import Sequence

from parley.errors import printable


class RegistryRefused(Exception):
    """An answer that is an error: HTTP's status, the registry's own code, a text."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.status = error_code if error_code < 1000 else int(str(error_code)[:3])


def no_subject(subject: str) -> RegistryRefused:
    """Return the error for a subject that is not there."""
    return RegistryRefused(40401, f"Subject '{printable(subject)}' not found.")


def no_version(version: object) -> RegistryRefused:
    """Return the error for a version that is not there."""
    return RegistryRefused(40402, f"Version {printable(str(version))} not found.")


def no_schema(what: object = None) -> RegistryRefused:
    """Return the error for a schema that is not there."""
    which = "" if what is None else f" {printable(str(what))}"
    return RegistryRefused(40403, f"Schema{which} not found")


def invalid_schema(why: str) -> RegistryRefused:
    """Return the error for what is no schema."""
    return RegistryRefused(42201, f"Invalid schema: {printable(why)}")


def invalid(code: int, why: str) -> RegistryRefused:
    """Return the error for another value that cannot be."""
    return RegistryRefused(code, why)


def incompatible(subject: str, messages: Sequence[str]) -> RegistryRefused:
    """Return the error for a schema that may not follow those before it."""
    return RegistryRefused(
        409,
        f"Schema being registered is incompatible with an earlier schema for subject "
        f'"{printable(subject)}", details: [{printable(", ".join(messages), 4_000)}]',
    )
