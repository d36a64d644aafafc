"""What can go wrong between Credence and a model.

    ProviderError                      the call failed; nothing of the answer may be used
    ├── ProviderTimeoutError           it took too long: connect, first token, between tokens, total
    ├── ProviderRefusedHostError       the operator or the address rules forbid the host
    └── ProviderMisconfiguredError     the provider's row cannot be used as it stands
    SealedSecretError                  a stored key does not open with the keys at hand

Details never hold a key, prompt text, or more of a provider's answer than a short cleaned message.
"""

from __future__ import annotations

from typing import ClassVar

from memory.errors import CredenceError


class ProviderError(CredenceError):
    """The model provider failed or sent an unusable answer.

    Attributes:
        field: What was entered wrong, where a provider is being made or changed.
        spent_tokens: Tokens in and out of a call whose answer is of no use, where it was counted.
    """

    code: ClassVar[str] = "provider_error"
    field: str | None = None
    spent_tokens: tuple[int, int] | None = None

    def __init__(self, detail: str | None = None, *, status: int | None = None) -> None:
        """Keep `detail` and the provider's HTTP `status`, where there was one."""
        self.status = status
        super().__init__(detail)


class ProviderTimeoutError(ProviderError):
    """The model provider did not answer in time."""

    code = "provider_timeout"


class ProviderRefusedHostError(ProviderError):
    """The provider's host is not allowed."""

    code = "provider_host_refused"


class ProviderMisconfiguredError(ProviderError):
    """The provider is not configured in a way that can work."""

    code = "provider_misconfigured"


class SealedSecretError(CredenceError):
    """A stored secret cannot be opened with the configured keys."""

    code = "secret_unreadable"
