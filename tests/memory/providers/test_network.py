"""Which hosts and addresses are refused."""

from __future__ import annotations

import pytest

from memory.providers.errors import (
    ProviderMisconfiguredError,
    ProviderRefusedHostError,
)
from memory.providers.network import (
    HostRule,
    check_base_url,
    check_endpoint,
)

pytestmark = pytest.mark.req("A28")


def rule(locality: str = "local", *hosts: str) -> HostRule:
    return HostRule(locality=locality, allowed_hosts=hosts)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("api.example.com", "api.example.com", 443),
        ("API.Example.com.", "api.example.com", 8443),
        ("api.example.com:8443", "api.example.com", 8443),
        ("10.0.0.5:8000", "10.0.0.5", 8000),
        ("[fd00::5]:8000", "fd00::5", 8000),
        ("fd00::5", "fd00::5", 8000),
        ("模型.example", "模型.example".encode("idna").decode(), 443),
        ("*", "anything.example", 1),
        ("loopback", "localhost", 1),
        ("loopback", "a.localhost", 1),
        ("loopback", "127.9.9.9", 1),
        ("loopback", "::1", 1),
    ],
)
def test_listed_host_passes(entry: str, host: str, port: int) -> None:
    rule("local", entry).check_host(host=host, port=port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("api.example.com", "evil-api.example.com", 443),
        ("api.example.com", "api.example.com.evil.net", 443),
        ("api.example.com:8443", "api.example.com", 443),
        ("loopback", "localhost.evil.net", 80),
        ("loopback", "10.0.0.1", 80),
        ("loopback", "127.0.0.1.evil.net", 80),
        ("", "api.example.com", 443),
        ("*.example.com", "api.example.com", 443),
    ],
)
def test_unlisted_host_is_refused(entry: str, host: str, port: int) -> None:
    with pytest.raises(ProviderRefusedHostError):
        rule("local", entry).check_host(host=host, port=port)


FORBIDDEN = [
    "169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "0.0.0.0", "0.1.2.3",
    "::", "255.255.255.255", "240.0.0.1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254",
]  # fmt: skip
PRIVATE = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "fd12::1", "::ffff:10.0.0.1"]
LOOPBACK = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
PUBLIC = ["93.184.216.34", "2606:4700::1111", "172.32.0.1"]


@pytest.mark.parametrize("address", FORBIDDEN)
@pytest.mark.parametrize("locality", ["local", "cloud"])
def test_forbidden_address_is_refused_whatever_is_listed(locality: str, address: str) -> None:
    with pytest.raises(ProviderRefusedHostError):
        rule(locality, "*", "loopback").check_addresses([address])


@pytest.mark.parametrize(
    ("locality", "hosts", "good", "bad"),
    [
        ("local", ("*",), PRIVATE + LOOPBACK, [*PUBLIC, "100.64.0.1", "192.0.2.1"]),
        ("cloud", ("*",), PUBLIC, [*PRIVATE, *LOOPBACK, "100.64.0.1", "198.18.0.1"]),
        ("cloud", ("*", "loopback"), PUBLIC + LOOPBACK, PRIVATE),
        ("cloud", ("127.0.0.1:9000",), LOOPBACK, PRIVATE),
    ],
)
def test_addresses_must_suit_the_locality(
    locality: str, hosts: tuple[str, ...], good: list[str], bad: list[str]
) -> None:
    for address in good:
        assert rule(locality, *hosts).check_addresses([address]) == (address,)
    for address in bad:
        with pytest.raises(ProviderRefusedHostError):
            rule(locality, *hosts).check_addresses([address])


def test_one_bad_address_among_good_ones_is_refused() -> None:
    with pytest.raises(ProviderRefusedHostError):
        rule("local", "*").check_addresses(["10.0.0.1", "93.184.216.34"])
    with pytest.raises(ProviderRefusedHostError):
        rule("cloud", "*").check_addresses(["93.184.216.34", "10.0.0.1"])
    with pytest.raises(ProviderRefusedHostError):
        rule("cloud", "*").check_addresses([])


def test_base_url_is_checked_without_the_network() -> None:
    good = "https://api.example.com/v1"
    assert check_base_url(good, rule=rule("cloud", "api.example.com:443")) == good
    with pytest.raises(ProviderRefusedHostError):
        check_base_url("http://169.254.169.254/v1", rule=rule("cloud", "*"))
    for bad in (None, "https:///v1", "file:///etc/passwd", "https://a/?x=1", "http://a:99999/"):
        with pytest.raises(ProviderMisconfiguredError):
            check_base_url(bad, rule=rule("cloud", "*"))


def test_endpoint_of_a_local_provider_must_resolve_to_a_private_address() -> None:
    url = "http://llm.internal:8000/v1"
    assert check_endpoint(
        url, rule=rule("local", "llm.internal"), resolve=lambda host, port: ["10.0.0.7"]
    ) == ("10.0.0.7",)
    with pytest.raises(ProviderRefusedHostError):
        check_endpoint(url, rule=rule("local", "*"), resolve=lambda host, port: ["8.8.8.8"])

    def fails(host: str, port: int) -> list[str]:
        raise OSError

    with pytest.raises(ProviderRefusedHostError):
        check_endpoint(url, rule=rule("local", "*"), resolve=fails)


@pytest.mark.parametrize(
    "url",
    ["http://a/\r\nb", "http://a/b c", "http://a/\x07", "http://１２７.0.0.1/", "http://１２７.1/"],
)
def test_base_url_with_blanks_controls_or_dressed_up_digits_is_misconfigured(url: str) -> None:
    with pytest.raises(ProviderMisconfiguredError):
        check_base_url(url, rule=rule("local", "*"))


def test_host_without_an_idna_form_is_refused_and_no_fault() -> None:
    for host in ("a..b", "a" * 64):
        with pytest.raises((ProviderRefusedHostError, ProviderMisconfiguredError)):
            check_endpoint(f"http://{host}/v1", rule=rule("local", "*"))


def test_host_in_chinese_is_a_name_like_any_other() -> None:
    url = "http://模型.example/v1"
    assert check_base_url(url, rule=rule("local", "模型.example")) == url
