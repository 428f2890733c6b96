"""Environment variables for proxies and certificates, which HTTP clients read."""

from __future__ import annotations

import os
import re
import ssl
from functools import cache
from importlib.util import find_spec
from urllib.parse import urlsplit

from pytest_evals.masking.values import masked_text

_SCHEMES = ("http", "https", "socks5", "socks5h")


def network_fault(url: str = "", *, reads_certificates: bool = True) -> str:
    """Return which variable HTTP clients cannot use, and the fix; empty if all can be
    used. ``url``: the address of the server, if it is known. ``reads_certificates``:
    whether the client takes its certificates from a variable."""
    from urllib.request import getproxies_environment

    values = getproxies_environment()
    schemes = () if values.get("no", "").strip() == "*" else ("http", "https", "all")
    # Clients read the proxies of all schemes, also those that the server does not use.
    for scheme in schemes:
        if values.get(scheme):
            fault = _proxy_fault(values[scheme])
            if fault:
                return f"the environment variable {_variable(scheme)} {fault}"
    return _certificate_fault(url) if reads_certificates else ""


def proxy_variable(url: str) -> str:
    """Return the variable of the proxy of a server; empty if it has no proxy."""
    from urllib.request import getproxies_environment, proxy_bypass

    values, parts = getproxies_environment(), urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return next((_variable(s) for s in (parts.scheme, "all") if values.get(s)), "")


def proxy_value(url: str) -> str:
    """Return the address of the proxy of a server; empty if it has no proxy."""
    value = os.environ.get(proxy_variable(url), "")
    return value if "://" in value or not value else f"http://{value}"


def _variable(scheme: str) -> str:
    """Return the name of the variable; the one in lower case has priority."""
    lower = f"{scheme}_proxy"
    return lower if os.environ.get(lower) else lower.upper()


def _proxy_fault(value: str) -> str:
    url = value if "://" in value else f"http://{value}"
    masked_text(url)  # from here on, no error repeats its password
    secret, at, host = value.rpartition("@")
    shown = repr(f"***{at}{host}" if secret else host)
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"[\s\x00-\x1f]", value):
        message = f"is not the address of a proxy: {shown}"
        return f"{message}\n  fix: write http://HOST:PORT, or unset it"
    if parts.scheme not in _SCHEMES:
        message = f"has an unknown scheme, {parts.scheme!r}: {shown}"
        return f"{message}\n  fix: write one of {', '.join(_SCHEMES)}, or unset it"
    if parts.scheme.startswith("socks") and find_spec("socksio") is None:
        message = f"is a SOCKS proxy, which needs the package socksio: {shown}"
        return f"{message}\n  fix: pip install socksio, or unset the variable"
    return ""


def _certificate_fault(url: str) -> str:
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        stamp = os.stat(file).st_mtime_ns if os.path.isfile(file) else 0
        why = _why_useless(file, stamp)
        return (
            f"the environment variable SSL_CERT_FILE is {file!r}, which {why}\n"
            "  fix: set it to a file of certificates in PEM, or unset it"
            if why
            else ""
        )
    folders = os.environ.get("SSL_CERT_DIR", "")
    if not folders or not url.startswith("https:"):
        return ""
    if any(map(os.path.isdir, folders.split(os.pathsep))):
        return ""
    return (
        f"the environment variable SSL_CERT_DIR is {folders!r}, which is not a folder\n"
        "  fix: set it to a folder of certificates in PEM, or unset it"
    )


@cache
def _why_useless(file: str, stamp: int) -> str:
    """Return why a file of certificates cannot be used. Cached by its time stamp: the
    certificates of all authorities take a tenth of a second."""
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        return "has no certificates"
    except (OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', error)})"
    return ""
