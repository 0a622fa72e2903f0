"""The rows of the option table about schemas: formats, the registry, what becomes of bad messages.

What they mean is `SchemaOptions`' and `RegistryOptions`' of the client, whose names these are in
camelCase (`PART_ROWS`, `REGISTRY_ROWS`); `schemas` makes those of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from parley.client import FORMATS, FRAMINGS
from parley.spark.options.row import (
    INT32,
    INT64,
    OURS,
    OptionValue,
    SparkOption,
    Use,
    boolean,
    integer,
    names,
    secret_text,
    text,
)

BOTH = Use.READ | Use.WRITE
FAIL, NULL, DEAD_LETTER = "fail", "null", "dead-letter"
COLUMNS, FLAT = "columns", "flat"
_FRAMINGS = tuple(FRAMINGS)
_CHOICES = "latest, id:7, guid:..., subject:NAME:3, subject:NAME:latest or file:PATH"

VALUE_FORMAT = text(
    "valueFormat",
    None,
    "format of values: a typed column instead of bytes",
    use=BOTH,
    choices=FORMATS,
    sparks=OURS,
)
KEY_FORMAT = text("keyFormat", None, "the same of keys", use=BOTH, choices=FORMATS, sparks=OURS)
VALUE_SCHEMA = text(
    "valueSchema",
    None,
    f"the schema that decides the column, or that is written: {_CHOICES}; default latest",
    use=BOTH,
    sparks=OURS,
)
KEY_SCHEMA = text("keySchema", None, "the same of keys", use=BOTH, sparks=OURS)
VALUE_SUBJECT = text(
    "valueSubject",
    None,
    "subject of the values' schema; default the topic's name and -value",
    use=BOTH,
    sparks=OURS,
)
KEY_SUBJECT = text(
    "keySubject",
    None,
    "subject of the keys' schema; default the topic's name and -key",
    use=BOTH,
    sparks=OURS,
)
VALUE_COLUMNS = names(
    "valueColumns",
    "fields of values to decode: others are skipped, not built",
    sparks=OURS,
)
KEY_COLUMNS = names("keyColumns", "the same of keys", sparks=OURS)
VALUE_MESSAGE = text(
    "valueMessage",
    None,
    "Protobuf message of the values, by its full name; default the schema's first",
    use=BOTH,
    sparks=OURS,
)
KEY_MESSAGE = text("keyMessage", None, "the same of keys", use=BOTH, sparks=OURS)
VALUE_FRAMING = text(
    "valueFraming",
    None,
    "how values name their schema; default confluent, for a write confluent-prefix",
    use=BOTH,
    choices=_FRAMINGS,
    sparks=OURS,
)
KEY_FRAMING = text("keyFraming", None, "the same of keys", use=BOTH, choices=_FRAMINGS, sparks=OURS)
ENVELOPE = text(
    "envelope",
    COLUMNS,
    (
        "columns: a value is one column, with its fields in it; flat: its fields are columns of "
        "their own, before the record's"
    ),
    choices=(COLUMNS, FLAT),
    sparks=OURS,
)
ON_SCHEMA_ERROR = text(
    "onSchemaError",
    FAIL,
    (
        "what becomes of a message that cannot be decoded: fail the query, null with the reason in "
        "a column _error, or into deadLetterTopic"
    ),
    choices=(FAIL, NULL, DEAD_LETTER),
    sparks=OURS,
)
DEAD_LETTER_TOPIC = text(
    "deadLetterTopic", None, "topic for messages that cannot be decoded", sparks=OURS
)
DEAD_LETTER_LIMIT = integer(
    "deadLetterLimit",
    100,
    "most dead letters of one task; one more fails the query",
    low=0,
    high=INT64,
    sparks=OURS,
)

SCHEMA_REGISTRY_URL = secret_text(  # it may hold a login
    "schemaRegistryUrl",
    "URL of the schema registry, or several separated by commas, tried in order",
    use=BOTH,
    sparks=OURS,
)
PART_ROWS: Mapping[str, SparkOption[str | None]] = {
    "value_format": VALUE_FORMAT,
    "key_format": KEY_FORMAT,
    "value_schema": VALUE_SCHEMA,
    "key_schema": KEY_SCHEMA,
    "value_subject": VALUE_SUBJECT,
    "key_subject": KEY_SUBJECT,
    "value_framing": VALUE_FRAMING,
    "key_framing": KEY_FRAMING,
    "value_message": VALUE_MESSAGE,
    "key_message": KEY_MESSAGE,
}
"""Rows by the names that `SchemaOptions` has for them, without those of its columns."""
COLUMN_ROWS = {"value_columns": VALUE_COLUMNS, "key_columns": KEY_COLUMNS}
"""The same of its columns."""
REGISTRY_ROWS: Mapping[str, SparkOption[OptionValue]] = {
    "basic_auth_credentials_source": text(
        "schemaRegistryBasicAuthCredentialsSource",
        None,
        "USER_INFO, or URL for a login in the URL",
        use=BOTH,
        sparks=OURS,
    ),
    "basic_auth_user_info": secret_text(
        "schemaRegistryBasicAuthUserInfo", "user:password at the registry", use=BOTH, sparks=OURS
    ),
    "bearer_auth_credentials_source": text(
        "schemaRegistryBearerAuthCredentialsSource", None, "STATIC_TOKEN", use=BOTH, sparks=OURS
    ),
    "bearer_auth_token": secret_text(
        "schemaRegistryBearerAuthToken", "token at the registry", use=BOTH, sparks=OURS
    ),
    "bearer_auth_logical_cluster": text(
        "schemaRegistryBearerAuthLogicalCluster",
        None,
        "goes along with a token, as Confluent Cloud wants it",
        use=BOTH,
        sparks=OURS,
    ),
    "bearer_auth_identity_pool_id": text(
        "schemaRegistryBearerAuthIdentityPoolId", None, "the same", use=BOTH, sparks=OURS
    ),
    "ssl_cafile": text(
        "schemaRegistrySslCafile",
        None,
        "PEM file of certificates that the registry's is checked with",
        use=BOTH,
        sparks=OURS,
    ),
    "ssl_truststore_certificates": text(
        "schemaRegistrySslTruststoreCertificates", None, "the same as a text", use=BOTH, sparks=OURS
    ),
    "ssl_certfile": text(
        "schemaRegistrySslCertfile",
        None,
        "PEM file of a certificate of one's own",
        use=BOTH,
        sparks=OURS,
    ),
    "ssl_keyfile": text(
        "schemaRegistrySslKeyfile", None, "PEM file of its key", use=BOTH, sparks=OURS
    ),
    "ssl_password": secret_text(
        "schemaRegistrySslPassword", "password of the key", use=BOTH, sparks=OURS
    ),
    "ssl_check_hostname": boolean(
        "schemaRegistrySslCheckHostname",
        True,
        "whether the registry's certificate must be of its host",
        use=BOTH,
        sparks=OURS,
    ),
    "http_connect_timeout_ms": integer(
        "schemaRegistryHttpConnectTimeoutMs",
        60_000,
        "longest wait for a connection to the registry, in ms",
        use=BOTH,
        low=1,
        high=INT32,
        sparks=OURS,
    ),
    "http_read_timeout_ms": integer(
        "schemaRegistryHttpReadTimeoutMs",
        60_000,
        "longest wait for an answer of the registry, in ms",
        use=BOTH,
        low=1,
        high=INT32,
        sparks=OURS,
    ),
    "max_retries": integer(
        "schemaRegistryMaxRetries",
        3,
        "how often all URLs are tried again",
        use=BOTH,
        low=0,
        high=1_000,
        sparks=OURS,
    ),
    "retries_wait_ms": integer(
        "schemaRegistryRetriesWaitMs",
        1_000,
        "pause before the first time, in ms",
        use=BOTH,
        low=0,
        high=INT32,
        sparks=OURS,
    ),
    "retries_max_wait_ms": integer(
        "schemaRegistryRetriesMaxWaitMs",
        20_000,
        "the longest pause, in ms",
        use=BOTH,
        low=0,
        high=INT32,
        sparks=OURS,
    ),
}
"""Rows by the names that `RegistryOptions` has for them, without the URL."""
REGISTER_SCHEMAS = boolean(
    "registerSchemas",
    False,
    (
        "whether a schema that is not registered is; without valueSchema it is derived from the "
        "column's type"
    ),
    use=Use.WRITE,
    sparks=OURS,
)

SCHEMA_ROWS: tuple[SparkOption[OptionValue], ...] = (
    VALUE_FORMAT, KEY_FORMAT, SCHEMA_REGISTRY_URL, VALUE_SCHEMA, KEY_SCHEMA, VALUE_SUBJECT,
    KEY_SUBJECT, VALUE_COLUMNS, KEY_COLUMNS, VALUE_MESSAGE, KEY_MESSAGE, VALUE_FRAMING,
    KEY_FRAMING, ENVELOPE, ON_SCHEMA_ERROR, DEAD_LETTER_TOPIC, DEAD_LETTER_LIMIT, REGISTER_SCHEMAS,
    *REGISTRY_ROWS.values(),
)  # fmt: skip
"""All of them, in the order of the documentation."""
