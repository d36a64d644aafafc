"""How close two names are by what they mean, also across Chinese and English.

By the default model inside this process: no name leaves it. What the model can not know, short forms
that people use, is written out first. Without a model there is nothing to say: names alone decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from governance.items.names import count_otherwise, is_latin
from memory.conf import default_embedding_model
from memory.providers.embeddings.base import EmbeddingError, Failure, Vector
from memory.providers.embeddings.registry import embedded_config, embedder
from memory.providers.embeddings.usem3 import KIND

# Which cosine of usem3 is a likeness of 0 and which of 1, measured on tests/governance/items/pairs.py:
# across scripts unrelated names reach 0.70, within one script 0.80 (weekly report, daily report).
_ACROSS: Final = (0.31, 0.81)
_WITHIN: Final = (0.46, 0.96)
_SECONDS: Final = 1.0
_MOST_KEPT: Final = 4_096
_OFF: Final = "none"
# Short forms that the model takes for other words; the longest first.
_SHORT_FORMS: Final = (
    ("新标日", "新版标准日本语"),
    ("标日", "标准日本语"),
    ("高数", "高等数学"),
    ("线代", "线性代数"),
    ("大物", "大学物理"),
    ("四六级", "大学英语四级六级"),
    ("考研", "研究生入学考试"),
    ("雅思", "IELTS 雅思考试"),
    ("托福", "TOEFL 托福考试"),
)
_kept: OrderedDict[str, Vector] = OrderedDict()
_lock = Lock()


def written_out(name: str) -> str:
    """Return a name with its short forms written out."""
    for short, whole in _SHORT_FORMS:
        if short in name:
            return name.replace(short, whole)
    return name


def vectors_of(names: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors of names, as far as there are any; none without the model.

    Call it with no transaction open. Cost: about 2 ms a name the first time, then a look-up.
    """
    wanted = list(dict.fromkeys(name for name in names if name.strip()))
    with _lock:
        found = {name: _kept[name] for name in wanted if name in _kept}
    missing = [name for name in wanted if name not in found]
    if not missing or default_embedding_model() == _OFF:
        return found
    try:
        model = embedder(embedded_config(KIND))
        made = model.passages([written_out(name) for name in missing], seconds=_SECONDS)
    except EmbeddingError:
        return found
    new = {
        name: one for name, one in zip(missing, made, strict=True) if not isinstance(one, Failure)
    }
    with _lock:
        _kept.update(new)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return found | new


def meaning_likeness(first: str, second: str, vectors: dict[str, Vector]) -> float:
    """Return how close two names are by meaning, 0 to 1; 0 where one has no vector."""
    if first not in vectors or second not in vectors or count_otherwise(first, second):
        return 0.0
    cosine = float(vectors[first] @ vectors[second])
    none, all_of_it = _WITHIN if is_latin(first) == is_latin(second) else _ACROSS
    return min(max((cosine - none) / (all_of_it - none), 0.0), 1.0)
