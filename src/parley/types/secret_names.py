"""Which settings hold secrets, by their names: those of Spark, of lakes' libraries and of Spark's
tables, which nobody declares. Pure.

Where options are known they say so themselves: `secret_names` of `ClientOptions` and
`RegistryOptions`.
"""

from __future__ import annotations

import re

SECRET = (
    "secret|password|passphrase|token|jaas|credential|user.?info|header.?authorization"
    "|connection.?string|(?:account|customer|keystore|master|private|sas).?key"
)
"""What names of secrets have in them: a regular expression of Python and Java, in small letters."""
_SECRET = re.compile(rf"{SECRET}|^(?:azure_storage_)?access_key$", re.IGNORECASE)
_SUSPECT = re.compile(rf"{SECRET}|key|sas", re.IGNORECASE)
_ABOUT_A_SECRET = re.compile(
    r"(?:class|client.?id|enabled|endpoint|expires.at|file|interval|path|provider|ratio|source|type|ur[il])$"
    r"|^google_application_credentials$",  # a file's path
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether a setting holds a secret itself.

    >>> is_secret("aws_secret_access_key"), is_secret("aws_web_identity_token_file")
    (True, False)
    """
    return bool(_SECRET.search(name)) and not _ABOUT_A_SECRET.search(name)


def may_be_secret(name: str) -> bool:
    """Return whether no text should show a setting's value: it may hold a secret, or name one.

    >>> may_be_secret("aws_access_key_id"), may_be_secret("region")
    (True, False)
    """
    return bool(_SUSPECT.search(name))
