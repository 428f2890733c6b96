"""Environment variables for proxies and certificates."""

from __future__ import annotations

import ssl

import pytest

from pytest_evals.data.network_variables import network_fault, proxy_variable

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    for name in (*NAMES, "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    "name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("foo://me:s3cretpass@proxy:1", "unknown scheme, 'foo': '***@proxy:1'"),
        ("http://me:s3cretpass@[proxy", "not the address of a proxy: '***@[proxy'"),
        ("me:s3cret@pass@proxy:99999999", "not the address of a proxy"),
        ("http://:80", "not the address of a proxy"),
        ("a proxy", "not the address of a proxy"),
    ],
)
def test_an_invalid_proxy_names_the_variable_without_the_password(
    name, value, why, monkeypatch
):
    monkeypatch.setenv(name, value)
    fault = network_fault()
    assert fault.startswith(f"the environment variable {name} ")
    assert why in fault
    assert "s3cret" not in fault


def test_a_socks_proxy_needs_its_package(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    monkeypatch.setattr("pytest_evals.data.network_variables.find_spec", lambda _: None)
    assert "pip install socksio" in network_fault()


@pytest.mark.parametrize(
    "value", ["proxy:3128", "http://u:p@proxy:3128/", "http://[::1]:1"]
)
def test_a_valid_proxy_is_no_fault(value, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", value)
    assert network_fault("https://api.test") == ""
    assert proxy_variable("https://api.test/v1") == "HTTPS_PROXY"
    assert proxy_variable("http://api.test/v1") == ""


def test_the_lower_case_variable_has_priority(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "foo://x")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert network_fault() == ""
    assert proxy_variable("http://api.test") == "http_proxy"


def test_no_proxy_excludes_hosts(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.test")
    assert proxy_variable("http://localhost:8000/v1") == ""
    assert proxy_variable("http://api.test/v1") == ""
    monkeypatch.setenv("HTTP_PROXY", "foo://x")
    monkeypatch.setenv("NO_PROXY", "*")
    assert network_fault() == ""


def test_certificates_that_cannot_be_read_name_the_variable(tmp_path, monkeypatch):
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for path, why in (
        (text, "has no certificates"),
        (tmp_path / "x", "cannot be read"),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert f"SSL_CERT_FILE is {str(path)!r}, which {why}" in network_fault()
        assert network_fault(reads_certificates=False) == ""
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "x"))
    assert "SSL_CERT_DIR" in network_fault("https://api.test")
    assert network_fault("http://localhost:8000") == ""


def test_valid_certificates_are_no_fault(monkeypatch):
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        pytest.skip("this machine has no file of certificates")
    monkeypatch.setenv("SSL_CERT_FILE", file)
    assert network_fault("https://api.test") == ""
