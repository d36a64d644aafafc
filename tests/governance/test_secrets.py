"""Removal of secrets: every known format, disguised and glued; look-alikes stay.

Secrets are composed at run time, so that no line of this file has the shape of one.
"""

from __future__ import annotations

import base64
import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.secrets import strip_secrets

_RNG = random.Random(91)
_WORD = string.ascii_letters + string.digits


def _some(length: int, alphabet: str = _WORD) -> str:
    """Return random characters that hold at least one digit and one letter where they can."""
    made = "".join(_RNG.choice(alphabet) for _ in range(length - 2))
    return (
        made[: length // 2] + "7" + made[length // 2 :] + ("k" if "k" in alphabet else alphabet[-1])
    )


_HEX = "0123456789abcdef"
_PEM = "-----{} RSA PRIVATE " + "KEY-----"
_BODY = "\n".join(_some(64) for _ in range(3))

# Attack case 91: kind, the text around the secret, the secret.
SECRETS = {
    "aws id": ("aws_access_key", "{}", "AK" + "IA" + _some(16, string.ascii_uppercase + "234567")),
    "aws secret": ("aws_secret_key", "aws_secret_access_key = {}", _some(40, _WORD + "/+")),
    "github": ("github_token", "{}", "gh" + "p_" + _some(36)),
    "github fine": ("github_token", "{}", "github" + "_pat_" + _some(60)),
    "slack": ("slack_token", "{}", "xo" + "xb-" + _some(12, "0123456789") + "-" + _some(24)),
    "slack hook": (
        "slack_webhook",
        "https://hooks.slack.com/services/{}",
        f"T{'0A' * 5}/B{'0B' * 5}/{_some(24)}",
    ),
    "openai": ("openai_key", "{}", "sk" + "-proj-" + _some(48)),
    "openai old": ("openai_key", "{}", "sk" + "-" + _some(48)),
    "anthropic": ("anthropic_key", "{}", "sk" + "-ant-api03-" + _some(90)),
    "stripe": ("stripe_key", "{}", "sk" + "_live_" + _some(24)),
    "stripe test": ("stripe_key", "{}", "sk" + "_test_" + _some(24)),
    "google": ("google_api_key", "{}", "AI" + "za" + _some(35)),
    "gitlab": ("gitlab_token", "{}", "gl" + "pat-" + _some(20)),
    "npm": ("npm_token", "{}", "np" + "m_" + _some(36)),
    "aliyun": ("aliyun_key", "{}", "LT" + "AI5t" + _some(18)),
    "tencent": ("tencent_key", "{}", "AK" + "ID" + _some(32)),
    "credence": ("credence_key", "{}", "cr" + "_" + _some(8) + "_" + _some(43)),
    "jwt": ("jwt", "{}", "ey" + "J" + _some(20) + "." + "ey" + "J" + _some(40) + "." + _some(43)),
    "pem": ("private_key", "{}", _PEM.format("BEGIN") + "\n" + _BODY + "\n" + _PEM.format("END")),
    "pem escaped": (
        "private_key",
        '"{}"',
        (_PEM.format("BEGIN") + "\n" + _BODY + "\n" + _PEM.format("END")).replace("\n", "\\n"),
    ),
    "pem cut off": ("private_key", "{}", _PEM.format("BEGIN") + "\n" + _BODY),
    "bearer": ("authorization", "Authorization: Bearer {}", _some(40)),
    "bearer alone": ("bearer_token", "curl -H 'X: Bearer {}'", _some(40)),
    "basic": (
        "authorization",
        "Authorization: Basic {}",
        base64.b64encode(b"anna:h0use!boat").decode(),
    ),
    "basic alone": (
        "basic_auth",
        "use Basic {} there",
        base64.b64encode(b"anna:h0use!boat").decode(),
    ),
    "cookie": (
        "cookie",
        "Cookie: {}",
        f"theme=dark; sessionid={_some(32, _HEX)}; csrftoken={_some(32)}",
    ),
    "set-cookie": ("cookie", "Set-Cookie: {}; Path=/", f"id={_some(24)}"),
    "sid": ("session", "?lang=zh&sid={}", _some(20)),
    "csrf": ("session", "csrf_token: {}", _some(24)),
    "csrf json": ("session", '{{"csrfToken": "{}"}}', _some(24)),
    "presigned": ("presigned_url", "https://b.example/x?{}", "X-Amz-Signature=" + _some(64, _HEX)),
    "presigned oss": (
        "presigned_url",
        "https://b.example/x?{}",
        "Expires=1&OSSAccessKeyId=a&Signature=" + _some(28),
    ),
    "url": ("url_password", "postgres://app:{}@db.internal:5432/main", _some(14)),
    "url redis": ("url_password", "redis://:{}@cache:6379/0", _some(14)),
    "password zh": ("password", "密码是{}", _some(10)),
    "password zh blank": ("password", "密码是 {}", _some(10) + "!"),
    "password zh colon": ("password", "密码：{}", "hunter22"),
    "password word": ("password", "密码是{}，别忘了", "qwertyui"),
    "password ko": ("password", "口令：{}", _some(10)),
    "password en": ("password", "my password is {}", "hunter" + "2!"),
    "password colon": ("password", "password: {}", _some(12)),
    "otp zh": ("one_time_code", "验证码 {}", "482913"),
    "otp zh colon": ("one_time_code", "【某行】验证码：{}，五分钟内有效", "482913"),
    "otp en": ("one_time_code", "Your verification code is {}", "482913"),
    "otp before": ("one_time_code", "{} is your one-time code", "482913"),
    "named": ("api_key", "api_key = '{}'", _some(32)),
    "named zh": ("api_key", "密钥是{}", _some(32)),
}
FRAMES = [
    "{}",
    "请记住这个：{}。别告诉别人",
    "凭证为{}",
    "配置如下\n{}\n谢谢",
    "here it is: {} ok?",
]

LOOK_ALIKES = [
    "令牌是一种同步原语，常用于限流。",
    "cookie: 200g flour, 100g butter",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "uuid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "key: 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "订单号 2026113000012345 已发货",
    "运单 SF1234567890123，139123456789012",
    "my api key rotates every 30 days",
    "密码要大于八位，包含数字",
    "密码是什么？我忘了。",
    "密码是 string 类型，密码 8-16位",
    "key: order_2026_items_v2, key=report-final-2026.xlsx",
    "password is required and must be long",
    "The password: string field is mandatory",
    "token 数量大约是 4096",
    "max_tokens: 4096, token: 12",
    "the sk-learn library and sk-fading-circle-container",
    "basic understanding_of_tokens",
    "Basic programming skills",
    "Bearer of good news",
    "secret santa 安排在周五",
    "验证码6位，60秒内有效",
    "postgres://app:$DB_PASS@db/main and https://example.com:8080/a?b=c@d",
    "password = os.environ['DB_PASS']",
    "token = get_token(user)",
    "api_key = config.settings.provider.key",
    "会议室 eyJ 项目，2026-06-12 12:30",
    "https://example.com/list?page=2&sort=name",
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("kind", "around", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_strip_of_each_secret_replaces_it_by_its_kind(
    kind: str, around: str, secret: str, frame: str
) -> None:
    """Attack case 91."""
    shown = frame.replace("{}", around.replace("{{", "{").replace("}}", "}").replace("{}", secret))
    stripped = strip_secrets(shown)
    assert secret not in stripped.text
    assert secret[-8:] not in stripped.text
    assert kind in stripped.kinds
    assert f"[secret:{kind}]" in stripped.text


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_strip_of_look_alikes_changes_nothing(text: str) -> None:
    """Attack case 100."""
    assert strip_secrets(text).text == text
    assert strip_secrets(text).kinds == ()


@pytest.mark.parametrize("name", ["github", "openai", "aws id", "jwt", "stripe", "credence"])
@pytest.mark.parametrize(
    "disguise",
    [
        lambda secret: secret[:9] + "\u200b" + secret[9:],
        lambda secret: "".join(chr(ord(letter) + 0xFEE0) for letter in secret),
        "\u2060".join,
        lambda secret: "令牌" + secret + "请保密",
    ],
    ids=["zero width", "full width", "joiner everywhere", "glued"],
)
def test_strip_of_a_disguised_key_removes_all_of_it(name: str, disguise: object) -> None:
    hidden = disguise(SECRETS[name][2])  # type: ignore[operator]
    stripped = strip_secrets(f"前😀 {hidden} 后")
    assert SECRETS[name][0] in stripped.kinds
    assert hidden[-8:] not in stripped.text
    assert stripped.text.startswith("前😀 ")
    assert stripped.text.endswith(" 后")


def test_strip_of_look_alike_letters_sees_the_word_behind_them() -> None:
    token = _some(40)
    assert token not in strip_secrets(f"Bеаrеr {token}").text


@pytest.mark.parametrize(
    "name", ["github", "openai", "anthropic", "google", "npm", "credence", "aws id"]
)
@pytest.mark.parametrize("at", [8, 16])
def test_strip_of_a_key_over_a_line_break_removes_both_parts(name: str, at: int) -> None:
    """Attack case 92."""
    kind, _, secret = SECRETS[name]
    for line_break in ("\n", "\r\n", "  \n  ", "\n> "):
        stripped = strip_secrets(f"用 {secret[:at]}{line_break}{secret[at:]}\n谢谢")
        assert kind in stripped.kinds
        assert secret[at:] not in stripped.text
        assert stripped.text.endswith("\n谢谢")


def test_strip_of_a_whole_key_before_a_line_leaves_the_line() -> None:
    secret = SECRETS["github"][2]
    assert strip_secrets(f"{secret}\nunderstanding comes later").text.endswith(
        "\nunderstanding comes later"
    )
    assert strip_secrets("the sk-\nunderstanding").text == "the sk-\nunderstanding"


def test_strip_of_several_secrets_keeps_everything_between() -> None:
    """Attack case 104: characters outside the basic plane do not shift the spans."""
    parts = [SECRETS["github"][2], SECRETS["stripe"][2]]
    stripped = strip_secrets(f"😀a {parts[0]} 𝒳b {parts[1]} ✂️c")
    assert stripped.text == "😀a [secret:github_token] 𝒳b [secret:stripe_key] ✂️c"
    assert stripped.kinds == ("github_token", "stripe_key")


def test_strip_of_json_keeps_it_json() -> None:
    """Attack case 94: also as a key, also in nested text."""
    secret = SECRETS["openai"][2]
    stripped = strip_secrets(f'{{"{secret}": ["{secret}", {{"x": "\\"{secret}\\""}}]}}')
    assert stripped.text.count("[secret:openai_key]") == 3
    assert secret not in stripped.text


@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from(
                [around.replace("{}", secret) for _, around, secret in SECRETS.values()]
            ),
            st.sampled_from(LOOK_ALIKES),
            st.text(max_size=12),
        ),
        max_size=5,
    ),
    glue=st.sampled_from(["", " ", "\n", "，"]),
)
def test_strip_of_anything_is_idempotent(pieces: list[str], glue: str) -> None:
    once = strip_secrets(glue.join(pieces))
    assert strip_secrets(once.text).text == once.text


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece", ["sk-", "eyJa.", "a://b:", "cookie: a=", "-----BEGIN ", "AKIA\n", "password "]
)
def test_strip_of_long_hostile_text_takes_linear_time(piece: str) -> None:
    short, long = piece * 8000, piece * 32000
    strip_secrets(short)
    started = time.perf_counter()
    strip_secrets(short)
    between = time.perf_counter()
    strip_secrets(long)
    assert time.perf_counter() - between < 12 * (between - started) + 0.5
