"""Opening tables and catalogs: delta-rs and pyiceberg are asked for here, when they are needed.

Without Spark, so that readers can do without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from parley.errors import LakeError, NotInstalledError
from parley.spark.lakes.options import delta_address
from parley.types.secret_names import may_be_secret

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_SHORTEST = 4
"""What is shorter is no secret, and would be found in any text."""


def open_delta(
    where: str, storage: Mapping[str, str], version: int | None = None
) -> DeltaTable | None:
    """Return a new handle of a Delta table, as it is now or was at a version; None where there is
    none. Raises LakeError, and ConfigError as `delta_address`.
    """
    where = delta_address(where)
    try:
        import deltalake
        from deltalake.exceptions import TableNotFoundError
    except ModuleNotFoundError:
        raise NotInstalledError("deltalake", "delta") from None
    try:
        return deltalake.DeltaTable(where, version=version, storage_options=dict(storage) or None)
    except TableNotFoundError:
        return None
    except Exception as error:
        raise LakeError(
            f"the table {where} cannot be opened: {said(error, secrets_of(storage))}. Look at path "
            "and the options storage.*; a table of a newer Delta may need a newer deltalake"
        ) from error


def load_catalog(where: str, name: str | None, properties: Mapping[str, str]) -> Catalog:
    """Return the Iceberg catalog of a table. Raises LakeError."""
    try:
        from pyiceberg.catalog import load_catalog as load
    except ModuleNotFoundError:
        raise NotInstalledError("pyiceberg", "iceberg") from None
    try:
        return load(name, **properties)
    except Exception as error:
        raise unreachable(where, error, secrets_of(properties)) from error


def load_iceberg(where: str, catalog: Catalog, secrets: Iterable[str]) -> Table | None:
    """Return a table as its catalog has it; None where it has none. Raises LakeError."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return catalog.load_table(where)
    except NoSuchTableError:
        return None
    except Exception as error:
        raise unreachable(where, error, secrets) from error


def unreachable(where: str, error: Exception, secrets: Iterable[str]) -> LakeError:
    """Return the error for an Iceberg table that cannot be opened."""
    return LakeError(
        f"the table {where} cannot be opened: {said(error, secrets)}. Look at the options "
        "catalog and catalog.*, and at .pyiceberg.yaml"
    )


def said(error: Exception, secrets: Iterable[str] = ()) -> str:
    """Return what a lake's library says, on one line and without secrets."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(". ")
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def secrets_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return what of the settings of a catalog or a store no text may show, the longest first."""
    found = {secret for secret in _secrets(properties) if len(secret) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def _secrets(properties: Mapping[str, str]) -> Iterator[str]:
    for name, given in properties.items():
        value = str(given)
        if may_be_secret(name):
            yield value
        try:
            password = urlsplit(value).password
        except ValueError:  # no address
            continue
        if password:
            yield from (password, unquote(password))
