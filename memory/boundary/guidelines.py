"""The guidelines before the first request of a session: Credence's own words, not remembered text.

They stand outside every untrusted boundary, in the frame of the design seed (C, section 3.2).
"""

from __future__ import annotations

from memory.boundary.wording import Wording
from memory.sanitize import sanitize
from memory.tokens import truncate_end

_FRAME_HEADING = "[Background Context: Sync Guidelines]"
_RULE = "======"
_MAX_ROLE_TOKENS = 40


def guidelines(*, wording: Wording, role: str, has_summary_tool: bool) -> str:
    """Return the guidelines, naming the agent's `role` and, if it has one, its summary tool.

    The role is cleaned, put on one line and cut to 40 tokens; the whole estimates to at most 200.
    Without a role and without the tool there is nothing to say: the text is empty.
    """
    name = truncate_end(" ".join(sanitize(role).text.split()), max_tokens=_MAX_ROLE_TOKENS)
    said = [wording.guide_role.replace("{role}", name)] if name else []
    if has_summary_tool:
        said += [wording.guide_tool, wording.guide_must]
    if not said:
        return ""
    return "\n".join((_FRAME_HEADING, _RULE, wording.guide_heading, *said, _RULE))
