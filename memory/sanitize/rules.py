"""What counts as an order or a forged marker in remembered text: the book of patterns.

Every pattern is re2, runs on a shadow copy (see `folding`), and names what it needs: `cut` is
replaced (the whole match if absent), `keep` stays readable in parentheses (a plain mark if
absent), `spare` makes the match harmless (a negation before it, say).
"""

from __future__ import annotations

from memory.sanitize.forgeries import BOUNDARY_RULES, SPEAKER_ZH
from memory.sanitize.patterns import PatternBook

_ROLE = (
    r"system(?:[ _-](?:prompt|message|note|notice|instructions?|override|update|role|alert|command"
    r"|admin(?:istrator)?))?"
    r"|instructions?|important(?:[ _-](?:instructions?|notice|update|system[ _-]message))?"
    r"|developer(?:[ _-](?:mode|message|prompt|instructions?))?|admin(?:istrator)?|assistant"
)
_ROLE_ZH = (
    r"系\s*[统統](?:提示[词詞]?|消息|信息|指令|指示|通知|公告|命令|管理[员員])?"
    r"|重要(?:指令|指示|提示|通知|系[统統]消息)?|最高(?:指令|[权權]限|[优優]先[级級])"
    r"|指令|指示|管理[员員]|[开開][发發]者(?:模式)?|助手|助理"
)

# Between the words of an order: blanks, line ends, light punctuation ("ignore-all.previous").
_SEP = r"[\s_.,>*\"'\-]{1,8}"
_VERB = r"\b(?:ignore|disregard|forget|override|bypass|discard|neglect)\b"
_NOT = (
    r"(?P<spare>\b(?:do not|don'?t|never|cannot|can'?t|must not|mustn'?t|should not|shouldn'?t"
    r"|will not|won'?t|not to)\s+)?"
)
_FILL = rf"(?:{_SEP}[a-z']{{1,14}}){{0,4}}?"
_WHICH = (
    r"(?:all|any|every|each|everything|previous|prior|above|earlier|preceding|foregoing|past|system"
    r"|your|initial|original|existing|former|aforementioned|hidden|these|those)"
)
_WHAT = (
    r"(?:instructions?|prompts?|directions?|directives?|guidelines?|rules?|commands?|constraints?"
    r"|orders|programming|restrictions?|safeguards?)\b"
)

_GAP = r"[^。！？!?;；\n]"
_NEAR = r"[^。！？!?;；,\n]"
_VERB_ZH = (
    r"(?P<spare>(?:不要|請勿|请勿|切勿|不能|不可|不得|不[应應])\s*)?"
    r"(?:忽\s*略|忽\s*[视視]|[无無]\s*[视視]|忘\s*[记記掉]|不\s*要?\s*理\s*[会會]|不\s*[必要]\s*遵守"
    r"|[抛拋]\s*[开開]|违背|違背)"
)
_WHICH_ZH = (
    r"(?:以\s*上|之\s*前|先\s*前|前\s*面|上\s*面|上\s*述|此\s*前|所\s*有|全\s*部|一\s*切|任\s*何"
    r"|系\s*[统統]|原\s*[有来來]|你\s*的|既有|[现現]有|[这這]些)"
)
_WHAT_ZH = (
    r"(?:提\s*示(?:[词詞]|[语語])?|指\s*令|指\s*示|要\s*求|[规規]\s*[则則]|[设設]\s*定|命\s*令"
    r"|限\s*制|[约約]\s*束|prompts?)"
)

# What stands between the brackets of a link: escapes and a pair of brackets may be in it.
_ALT = r"(?:\\.|\[[^\]\n]*\]|[^\[\]\\]){1,200}"

MARKER_RULES = {
    "role_bracket": (
        rf"(?i)\[\s*/?\s*[#*!_]{{0,4}}\s*(?P<keep>{_ROLE}|user|human|ai|{_ROLE_ZH}|{SPEAKER_ZH})"
        r"\s*[#*!_]{0,4}\s*(?:\](?:\s*:)?|:)"
    ),
    "role_tag": (
        r"(?i)</?\s*(?P<keep>system(?:[_-](?:prompt|message|instructions?|reminder))?|instructions?"
        r"|important|assistant|developer|admin|tool_(?:calls?|responses?|results?)"
        r"|function_(?:calls?|results?)|invoke)\s*/?>"
    ),
    "role_line": (
        r"(?im)^[ ]{0,3}(?:[>#*_~]+[ ]?){0,4}(?P<cut>[(\[*_]{0,3}[ ]?"
        rf"(?P<keep>{_ROLE}|user|human|ai|{_ROLE_ZH}|{SPEAKER_ZH})[ \t]?[)\]*_]{{0,3}}[ \t]{{0,4}}:)"
    ),
    "role_capitals": (
        r"\b(?P<keep>SYSTEM|INSTRUCTIONS?|SYSTEM (?:PROMPT|MESSAGE|OVERRIDE)"
        r"|IMPORTANT INSTRUCTIONS?|NEW INSTRUCTIONS?)[ \t]{0,4}:"
    ),
    "role_zh": (
        r"(?P<keep>(?:重要|系[统統]|最高|[紧緊]急|新|新的|[隐隱]藏)(?:指令|指示|命令)"
        r"|系[统統](?:提示[词詞]?|消息))\s{0,4}:"
    ),
    "chat_token": r"<\|(?P<keep>[^\s|<>]{1,64})\|>",
    "chat_token_open": r"(?i)<\|/?(?P<keep>[a-z][a-z_]{0,40})>|<(?P<keep2>[a-z][a-z_]{0,40})\|>",
    "chat_token_known": (
        r"(?i)\[\s?/?(?P<keep>INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|BOS|EOS)\s?\]"
        r"|<<\s?/?(?P<keep2>SYS)\s?>>"
        r"|</?(?P<keep3>s|bos|eos|unk|(?:start|end)_of_(?:turn|image|text|header)|eot|eom)>"
    ),
}

ORDER_RULES = {
    "override_en": (rf"(?i){_NOT}{_VERB}{_FILL}{_SEP}{_WHICH}\b{_FILL}{_SEP}{_WHAT}"),
    "override_all_en": (
        rf"(?i){_NOT}{_VERB}{_SEP}(?:everything|anything|all)"
        rf"(?:{_SEP}(?:of|that|which|was|is|said|written|stated|the|text|you|have|had|were|been)){{0,5}}?"
        rf"{_SEP}(?:above|before|previously|prior|earlier|told|learned|learnt)\b"
    ),
    "persona_en": (
        r"(?i)\b(?:from\s+now\s+on|henceforth|starting\s+now)\s*,?\s*you"
        r"(?:'re|\s+(?:are|must|shall|will\s+(?:be|act|obey|answer|respond|have)|have\s+to|no\s+longer))\b"
    ),
    "persona_mode_en": (
        r"(?i)\byou\s+are\s+now\s+(?:(?:an?|the)\s+)?(?:dan|unrestricted|jailbroken|uncensored|root|admin"
        r"(?:istrator)?|in\s+(?:developer|debug|god|admin|dan|sudo)\s+mode)\b"
    ),
    "override_zh": (
        rf"(?i){_VERB_ZH}\s*{_GAP}{{0,12}}?(?:{_WHICH_ZH}\s*){{1,4}}{_NEAR}{{0,10}}?\s*{_WHAT_ZH}"
        r"(?P<spare_after>音|框|[弹彈]?窗|[灯燈]|[铃鈴])?"
    ),
    "override_content_zh": (
        rf"{_VERB_ZH}\s*(?:(?:以\s*上|之\s*前|前\s*面|上\s*面)\s*的?\s*(?:所有|全部|一切)?|(?:所有|全部|一切)\s*"
        r"(?:以上|之前|前面|上面))\s*的?\s*[内內]容"
    ),
    "persona_zh": (
        r"(?i)[从從]\s*(?:[现現]在|此刻|今)\s*(?:[开開]\s*始|起)?\s*[,、]?\s*(?:[你您]\s*(?:就?是|[将將](?:是|扮演)"
        r"|扮演|必[须須]|不再|只能)|[无無][论論](?:用[户戶]|[谁誰]|我))"
    ),
    "persona_now_zh": (
        r"(?i)[你您]\s*[现現]在\s*就?是\s*(?:一?[个個名位])?\s*(?:dan\b|root|(?:系[统統])?管理[员員]"
        r"|[没沒]有(?:任何)?限制|不受(?:任何)?(?:限制|[约約]束))"
    ),
    # What a renderer would load, or a reader click, with remembered words in its address. The alt
    # text stays, so that a badge in a README costs no words.
    "image_beacon": (
        rf"(?i)!\[(?P<keep>{_ALT})?\]\(\s*<?(?:https?:)?//[^\s)?{{&]*(?:[?{{&]|%7b)[^)\n]*\)"
    ),
    "image_tag": (
        r"(?i)<img\b[^>\n]{0,200}?\bsrc\s*=\s*[\"']?(?:https?:)?//[^\s\"'>?{&]*(?:[?{&]|%7b)[^>\n]*>"
    ),
    "link_beacon": (
        rf"(?im)\[(?P<keep>{_ALT})?\]\(\s*<?(?:https?:)?//[^\s){{]*(?:\{{|%7b)[^)\n]*\)"
        r"|^[ ]{0,3}\[[^\]\n]{1,100}\]:\s*<?(?:https?:)?//[^\s{]*(?:\{|%7b)[^\n]*"
    ),
}

BOOK = PatternBook({**BOUNDARY_RULES, **MARKER_RULES, **ORDER_RULES})
