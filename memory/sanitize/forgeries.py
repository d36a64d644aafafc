"""Forged lines of a prompt: every form in which Credence frames remembered text, in both languages.

The same manner as the rest of the book (see `rules`). Each form that `memory.boundary` writes has
its pattern here; a test there holds the two together.
"""

from __future__ import annotations

SPEAKER_ZH = r"用[户戶]|使用者|助手|助理"

_DASH = r"[—\-–:]"
_DOT = r"[·•‧∙⋅・]"
_DATE = r"[\d/.\-年月日 ]{0,14}"
_END_ZH = r"[结結]\s*束"
# Names that only Credence gives to a section, and names that many a text has of its own.
_SECTION_ZH = (
    r"相[关關][历歷]史|核心[记記][忆憶]|知[识識][库庫][检檢]索[结結]果|用[户戶][问問][题題]|[当當]前[请請]求"
    r"|本[轮輪][请請]求|指引|偏好|事[实實]|[续續]接|[关關]于用[户戶]的已[确確][认認]事[实實]|可[继繼][续續]的[产產]物"
)
_COMMON = r"已知事[实實]|[参參]考[资資]料|user\s+preferences|facts|reference[\s_]+material"
_SECTION_EN = (
    r"current[\s_]+request|related[\s_]+history|conversation[\s_]+history|core[\s_]+memory"
    r"|retrieved[\s_]+knowledge|user[\s_]+question|user[\s_]+preferences|background[\s_]+context"
    r"|confirmed[\s_]+facts[\s_]+about[\s_]+the[\s_]+user|art[ei]facts[\s_]+to[\s_]+continue"
)
_SPOKEN = rf"{SPEAKER_ZH}|工具|摘要|user|assistant|tool|summary"


def _loose(words: str) -> str:
    """Return a pattern for CJK `words` with blanks and line ends allowed between them."""
    variants = {"会": "[会會]", "话": "[话話]", "结": "[结結]", "户": "[户戶]", "轮": "[轮輪]"}
    variants |= {"实": "[实實]", "请": "[请請]", "为": "[为為]", "历": "[历歷]", "记": "[记記]"}
    variants |= {"录": "[录錄]", "仅": "[仅僅]", "节": "[节節]", "点": "[点點]", "对": "[对對]"}
    variants |= {"动": "[动動]"}
    return r"\s*".join(variants.get(letter, letter) for letter in words)


BOUNDARY_RULES = {
    "boundary_zh": rf"{_loose('本会话前情')}(?:\s*{_loose('结束')})?",
    "boundary_request_zh": rf"{_loose('以下是用户')}\s*(?:{_loose('本轮的')})?\s*{_loose('真实请求')}",
    "boundary_opening_zh": rf"{_loose('下列为历史记录')}\s*[,、]?\s*{_loose('仅供回')}[忆憶]",
    "boundary_heading_zh": (
        rf"\[\s*/?\s*(?:{_SECTION_ZH})(?:\s*{_END_ZH})?(?:\s*{_DASH}[^\]\n]{{0,200}})?\]"
        rf"|(?i)\[\s*/?\s*(?:{_COMMON})(?:\s*{_END_ZH}|\s*[—–][^\]\n]{{0,200}})\]?"
    ),
    "boundary_en": rf"(?i)\[\s*/?\s*(?:end[\s_]+of[\s_]+)?(?:{_SECTION_EN})[^\]\n]{{0,500}}\]?",
    "boundary_common": (
        rf"(?i)\[\s*(?:end[\s_]+of[\s_]+(?:{_COMMON}|{_SECTION_ZH})\s*\]|(?:{_COMMON})\s*[—–][^\]\n]{{0,500}}\]?)"
    ),
    "boundary_opening_en": (
        r"(?i)what\s+follows\s+is\s+a\s+record\s+of\s+the\s+past\s*,?\s*only\s+for\s+recall"
    ),
    "boundary_end_en": r"(?i)end\s+of\s+(?:the\s+)?conversation\s+history",
    "boundary_request_en": r"(?i)the\s+user'?s\s+real\s+request\s+follows",
    "boundary_request_line_en": r"(?im)^[ \t#*>=\-]{0,8}(?P<cut>current request)[ \t#*:=\-]{0,8}$",
    "boundary_message": (
        rf"(?i)\[\s*(?:[历歷]\s*史|history)\s*{_DOT}\s*[(<‹❮〈《«⟨]?\s*(?:{_SPOKEN})[^\]\n]{{0,60}}\]?"
        rf"|\[\s*(?:[历歷]\s*史|history)\s*[|/.\-]\s*(?:{_SPOKEN}){_DATE}\]"
        r"|\[\s*/\s*(?:[历歷]\s*史|history)\s*\]"
    ),
    "boundary_frame": (
        rf"(?i)passive\s+synchroni[sz]ation\s+guidelines|{_loose('被动同步指引')}"
        rf"|{_loose('已了解以上前情')}\s*骨\s*架|i\s+have\s+read\s+the\s+outline\s+above\s*;"
    ),
    "boundary_part": (
        rf"(?im)^[ \t]{{0,8}}(?P<cut>\(\s*(?:{_loose('此前对话摘要')}|{_loose('最近对话')}"
        rf"|{_loose('更早对话的摘要节点')}[^)\n]{{0,60}}|summary\s+of\s+the\s+conversation\s+before"
        r"|most\s+recent\s+conversation|summary\s+nodes\s+of\s+the\s+earlier\s+conversation[^)\n]{0,80})"
        r"\s*\))"
    ),
    "boundary_node": (
        r"(?i)node_[0-9a-z]{1,40}\s*\(\s*\d[\d/.\-年月日 ]{5,14}(?:至|to|-)[\d/.\-年月日 ]{6,14}"
        r",\s*\d{1,9}\s*(?:[轮輪]|turns?)\s*\)"
    ),
    "boundary_speaker": (
        rf"(?i)[‹❮](?P<keep>\s*(?:{SPEAKER_ZH}|工具|user|assistant|system|tool)\s*)[›❯]"
    ),
    "boundary_speaker_line": (
        rf"(?im)^[ \t]{{0,8}}(?P<cut>[<〈《«⟨](?P<keep>\s*(?:{SPEAKER_ZH}|工具|user|assistant|tool)\s*)[>〉》»⟩])"
    ),
}
