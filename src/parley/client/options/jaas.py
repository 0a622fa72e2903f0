"""`sasl.jaas.config`: read as text for the few options that parley knows, never evaluated.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="secret";

No class is loaded, nothing is interpolated, and no error shows the text: it holds a password.
"""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass, field

from parley.errors import ConfigError, nearest_hint
from parley.protocol.sasl import MECHANISMS
from parley.types import Secret

MODULES = {name: one.login_module.rpartition(".")[2] for name, one in MECHANISMS.items()}
"""The login module of each mechanism, as `JaasLogin.module` names it."""
_CLASSES = {
    f"org.apache.kafka.common.security.{one.login_module}": MODULES[one.name]
    for one in MECHANISMS.values()
}
_SHADED = re.compile(r"(?:[\w$]+\.)+?(org\.apache\.kafka\.common\.security\.\w+\.\w+)")
"""The prefix of Kafka's classes inside another program: `kafkashaded.org.apache…`."""
_MODULE = re.compile(r"[\w$]+(\.[\w$]+)*\.\w*LoginModule")
"""What is shown of an unknown module: any other word may be a misplaced password."""
_KNOWN = ", ".join(_CLASSES)
_FLAGS = {"required", "requisite", "sufficient", "optional"}
_CLAIM = "unsecuredLoginStringClaim_"
_EXTENSION = "extension_"
_TOKEN = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([=;])|([^\s=;"\']+))', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """What a JAAS text says: whose module it is, and the credentials in it."""

    module: str
    username: str | None = None
    password: Secret | None = None
    token_auth: bool = False
    claims: dict[str, str] = field(default_factory=dict)
    """OAUTHBEARER: what an unsecured token is to say."""
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    extensions: dict[str, str] = field(default_factory=dict)
    """OAUTHBEARER: SASL extensions (KIP-342), which Java names `extension_NAME` here."""
    endpoint_tls: dict[str, str] = field(default_factory=dict, repr=False)
    """OAUTHBEARER: `ssl.` options, which are for the token endpoint alone (KIP-768)."""


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token provider: JSON web tokens without a signature, Kafka's default where none is set.

    For development only: everybody can make one, for anybody.
    """

    claims: dict[str, str]

    def __call__(self) -> Secret:
        """Return a token that is valid for an hour from now."""
        now = int(time.time())
        parts = ({"alg": "none"}, {"iat": now, "exp": now + 3600, **self.claims})
        texts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in parts
        ]
        return Secret(".".join(texts) + ".")


def parse_jaas(text: Secret) -> JaasLogin:
    """Return what a JAAS text says.

    Raises ConfigError that names what is wrong, never the text itself.

    >>> parse_jaas(Secret('x.PlainLoginModule required;'))
    Traceback (most recent call last):
    parley.errors.tree.ConfigError: sasl_jaas_config: the login module "x.PlainLoginModule" ...
    """
    words = _words(text.reveal())
    if len(words) < 3 or words[-1] != (";", True) or words[1][0].lower() not in _FLAGS:
        raise ConfigError("sasl_jaas_config is not of the form: CLASS required NAME=VALUE ...;")
    name = words[0][0]
    shaded = _SHADED.fullmatch(name)
    module = _CLASSES.get(name if shaded is None else shaded[1])
    if module is None:
        is_module = len(name) <= 200 and _MODULE.fullmatch(name) is not None
        shown = (
            f' "{name}" is not known.{nearest_hint(name, _CLASSES)}'
            if is_module
            else f" is none of {_KNOWN}"
        )
        raise ConfigError(f"sasl_jaas_config: the login module{shown}")
    values = _values(words[2:-1])
    password = values.get("password")
    return JaasLogin(
        module,
        values.get("username"),
        None if password is None else Secret(password),
        values.get("tokenauth", "").lower() == "true",
        {
            key.removeprefix(_CLAIM): value
            for key, value in values.items()
            if key.startswith(_CLAIM)
        },
        values.get("clientId"),
        None if (secret := values.get("clientSecret")) is None else Secret(secret),
        values.get("scope"),
        {
            key.removeprefix(_EXTENSION): value
            for key, value in values.items()
            if key.startswith(_EXTENSION)
        },
        {key: value for key, value in values.items() if key.startswith("ssl.")},
    )


def _words(text: str) -> list[tuple[str, bool]]:
    """Return the words of a JAAS text; True marks a sign that stands for itself."""
    words, at = [], 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigError("sasl_jaas_config: a quotation mark is not closed")
        double, single, sign, bare = found.groups()
        quoted = double if double is not None else single
        words.append(
            (
                re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else sign or bare,
                sign is not None,
            )
        )
        at = found.end()
    return words


def _values(words: list[tuple[str, bool]]) -> dict[str, str]:
    values: dict[str, str] = {}
    if (";", True) in words:
        raise ConfigError("sasl_jaas_config has more than one login module; give the one to use")
    for i in range(0, len(words), 3):
        group = words[i : i + 3]
        if [sign for _, sign in group] != [False, True, False] or group[1][0] != "=":
            raise ConfigError(
                'sasl_jaas_config: after the class and its flag, only NAME="VALUE" may follow'
            )
        values[group[0][0]] = group[2][0]
    return values
