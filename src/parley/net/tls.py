"""TLS contexts of the client side: TLS 1.2 or newer, certificate and name verified."""

from __future__ import annotations

import logging
import ssl

from parley.errors import ConfigError
from parley.net.options import ConnectOptions
from parley.types import Secret

_log = logging.getLogger("parley.net")


def client_tls(options: ConnectOptions) -> ssl.SSLContext | None:
    """Return the context that connections use, None where they are not encrypted.

    Raises ConfigError when a certificate or key file cannot be used.
    """
    if not options.uses_tls:
        return None
    if options.ssl_context is not None:
        return options.ssl_context
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=options.ssl_cafile)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f'ssl_cafile="{options.ssl_cafile}" holds no usable CA certificates ({error})') from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not options.ssl_check_hostname:
        _log.warning("ssl_check_hostname=False: any holder of a trusted certificate can pose as the broker")
        context.check_hostname = False
    if options.ssl_certfile is not None:
        password = None if options.ssl_key_password is None else Secret(options.ssl_key_password).reveal()
        try:
            context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f'ssl_certfile="{options.ssl_certfile}" or its key cannot be used ({error})') from error
    elif options.ssl_keyfile is not None:
        raise ConfigError("ssl_keyfile is given without ssl_certfile; a key alone proves nothing")
    return context
