r"""What secrets look like: public key formats, assignments, headers, links; the book of patterns.

Every pattern is re2 and runs on a shadow copy. The group `v` is the secret (the whole match if
absent). `\b` is ASCII in re2, so it sees the border between Chinese text and a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from governance.secrets import shapes
from memory.sanitize.patterns import PatternBook

# Keys that their prefix gives away: (prefix, characters of the body, fewest, usual body length).
PREFIXED: Mapping[str, tuple[str, str, int, int]] = {
    "aws_access_key": ("(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)", "A-Z0-9", 16, 16),
    "github_token": ("gh[pousr]_", "A-Za-z0-9", 20, 36),
    "github_fine_token": ("github_pat_", "A-Za-z0-9_", 22, 82),
    "slack_token": ("(?:xox[abeoprs]|xapp)-", r"A-Za-z0-9\-", 10, 50),
    "anthropic_key": ("sk-ant-", r"A-Za-z0-9_\-", 16, 95),
    "openai_key": ("sk-", r"A-Za-z0-9_\-", 18, 48),
    "stripe_key": ("(?:sk|rk|pk)_(?:live|test)_", "A-Za-z0-9", 10, 24),
    "webhook_secret": ("whsec_", "A-Za-z0-9+/=", 16, 32),
    "google_api_key": ("AIza", r"A-Za-z0-9_\-", 30, 35),
    "google_oauth": (r"(?:ya29\.|GOCSPX-)", r"A-Za-z0-9_\-", 20, 28),
    "gitlab_token": ("gl(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent|oas)-", r"A-Za-z0-9_\-", 16, 20),
    "npm_token": ("npm_", "A-Za-z0-9", 30, 36),
    "pypi_token": ("pypi-AgE", r"A-Za-z0-9_\-", 40, 160),
    "huggingface_token": ("hf_", "A-Za-z0-9", 30, 34),
    "aliyun_key": ("LTAI", "A-Za-z0-9", 12, 20),
    "tencent_key": ("AKID", "A-Za-z0-9", 28, 32),
    "shopify_token": ("shp(?:at|ca|pa|ss)_", "a-fA-F0-9", 32, 32),
    "digitalocean_token": ("do[opr]_v1_", "a-f0-9", 40, 64),
    "sendgrid_key": (r"SG\.", r"A-Za-z0-9_\-.", 40, 66),
    "credence_key": ("cr_[A-Za-z0-9]{8}_", r"A-Za-z0-9_\-", 16, 40),
}

# A prefix so long that the line break may fall into it.
_LOOSE_PREFIX = {"credence_key": "cr_[A-Za-z0-9]{0,8}"}

_NAME = (
    r"(?:api[_\- ]?key|apikey|access[_\-]?key(?:[_\-]?(?:id|secret))?|secret(?:[_\-]?(?:access[_\-]?)?key)?"
    r"|client[_\-]secret|private[_\-]token|auth[_\-]?token|access[_\-]token|refresh[_\-]token|id[_\-]token"
    r"|bearer[_\-]token|session[_\-]?token|token|signing[_\-]key|account[_\-]?key|key"
    r"|密\s*[钥鑰]|秘\s*[钥鑰]|令牌|[凭憑][证證])"
)
_IS = r"""["'\]]{0,2}\s{0,3}(?:是|为|為|就是|is\b|=>|:=|[:=])\s{0,3}["'`]?"""
_SESSION_NAME = (
    r"(?:sid|ssid|session[_\-]?id|sessid|jsessionid|phpsessid|connect\.sid|asp\.net_sessionid"
    r"|x?csrf(?:[_\-]?token)?|csrfmiddlewaretoken|xsrf(?:[_\-]token)?|x-csrf-token|x-xsrf-token|sessionkey)"
)
_SIGNATURE = (
    r"(?:X-Amz-Signature|X-Amz-Security-Token|X-Amz-Credential|X-Goog-Signature|Signature|sig"
    r"|OSSAccessKeyId|q-signature|x-cos-security-token)"
)
_LOGIN_WORDS = r"(?:password|passwd|passphrase|passcode|pwd)"
_LOGIN_WORDS_ZH = r"(?:密\s*[码碼]|口\s*令|暗\s*[号號])"
_OTP = (
    r"(?:[验驗][证證][码碼]|校[验驗][码碼]|[动動][态態](?:密)?[码碼]|[确確][认認][码碼]|one[- ]time (?:code|password|passcode)"
    r"|(?:verification|security|login|2fa|mfa|authentication) code|\botp\b)"
)

_STRUCTURED = {
    "private_key": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[A-Za-z0-9+/=\s\\:,.\-()]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)"
    ),
    "jwt": r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]{4,}){1,3}",
    "cookie": (
        r"""(?i)\b(?:set-)?cookie["']?\s{0,3}[:=]\s{0,3}["']?"""
        r"""(?P<v>[!#$%&'*+\-.^_`|~\w]+=[^\s;,"'<>。、]{3,}(?:;\s{0,3}[!#$%&'*+\-.^_`|~\w]+=[^\s;,"'<>。、]{1,})*)"""
    ),
    "session": rf"""(?i)\b{_SESSION_NAME}["']?\s{{0,3}}[:=]\s{{0,3}}["']?(?P<v>[A-Za-z0-9_\-.%+/=]{{6,}})""",
    "authorization": (
        r"""(?i)\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?(?:(?:bearer|basic|token|digest|apikey)\s{1,3})?"""
        r"(?P<v>[A-Za-z0-9._~+/=\-]{8,})"
    ),
    "bearer_token": r"(?i)\bbearer\s{1,3}(?P<v>[A-Za-z0-9._~+/=\-]{16,})",
    "basic_auth": r"(?i)\bbasic\s{1,3}(?P<v>[A-Za-z0-9+/]{8,}={0,2})",
    "presigned_url": rf"(?i)https?://[^\s\"'<>?]{{3,}}\?(?P<v>[^\s\"'<>]*?\b{_SIGNATURE}=[^\s\"'<>,。、]{{8,}})",
    "slack_webhook": r"(?i)hooks\.slack\.com/services/(?P<v>[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,})",
    "telegram_token": r"\b(?P<v>\d{8,10}:AA[A-Za-z0-9_\-]{30,})",
    "url_password": r"""(?i)\b[a-z][a-z0-9+.\-]{1,20}://[^\s:/@"'<>]{0,64}:(?P<v>[^\s/@"'<>]{1,128})@""",
    "aws_secret_key": r"""(?i)\baws.{0,30}?["'\s:=]{1,6}(?P<v>[A-Za-z0-9/+]{40})\b""",
    "named_key": rf"(?i){_NAME}{_IS}(?P<v>[A-Za-z0-9_\-+/=.]{{16,}})",
    "password": rf"""(?i)\b{_LOGIN_WORDS}{_IS}(?P<v>[^\s"',、。<>]{{4,128}})""",
    "password_zh": rf"""(?i){_LOGIN_WORDS_ZH}\s{{0,3}}(?:是|为|為|就是|改成|改为|[:=])?\s{{0,3}}["'`]?(?P<v>[!-~]{{3,127}}[!-+\--:<-~])(?P<last>\s{{0,3}}(?:$|[\n,;。!?]))?""",
    "one_time_code": (
        rf"(?i){_OTP}\s{{0,3}}(?:\(otp\)\s?)?(?:是|为|為|is|[:=])?\s{{0,3}}(?P<v>(?:[a-z]-)?\d{{4,8}})\b"
    ),
    "one_time_code_before": (
        rf"(?i)\b(?P<v>\d{{4,8}})\s{{0,3}}(?:是|is|[,，])\s?(?:[你您]的|本次|your|the)?\s?[^\s\d。,]{{0,12}}?\s?{_OTP}"
    ),
}

# Digits and letters that must be there before a match counts; absent means every match counts.
CHECKS: Mapping[str, Callable[[str], bool]] = {
    "openai_key": shapes.is_token,
    "slack_token": shapes.has_digit,
    "bearer_token": shapes.is_token,
    "authorization": shapes.is_token,
    "basic_auth": shapes.is_basic_credentials,
    "session": shapes.is_token,
    "named_key": shapes.is_key_value,
    "password": shapes.is_password,
    "password_zh": shapes.is_password,
    "url_password": shapes.is_no_variable,
    "one_time_code": shapes.is_no_year,
    "one_time_code_before": shapes.is_no_year,
}

# What a kind is called in the text that is kept.
KINDS: Mapping[str, str] = {
    "github_fine_token": "github_token",
    "password_zh": "password",
    "one_time_code_before": "one_time_code",
    "named_key": "api_key",
}


def _whole(prefix: str, letters: str, fewest: int) -> str:
    """Return the pattern of a key that stands in one piece."""
    return rf"\b{prefix}[{letters}]{{{fewest},}}"


def _split(prefix: str, letters: str) -> str:
    """Return the pattern of a key that may go on behind a line break."""
    return rf"\b(?P<head>{prefix}[{letters}]*)[ \t]*\n{{1,2}}[ \t>|]*(?P<tail>[{letters}]{{4,}})"


BOOK = PatternBook(
    {
        name: _whole(prefix, letters, fewest)
        for name, (prefix, letters, fewest, _) in PREFIXED.items()
    }
    | _STRUCTURED
)
SPLIT_BOOK = PatternBook(
    {
        name: _split(_LOOSE_PREFIX.get(name, prefix), letters)
        for name, (prefix, letters, _, _) in PREFIXED.items()
    }
)
# The length of a prefix, to know how much of a body stands before the line break.
PREFIX_START = {
    name: re.compile(_LOOSE_PREFIX.get(name, prefix))
    for name, (prefix, _, _, _) in PREFIXED.items()
}
