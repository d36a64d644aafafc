"""Summary nodes: the forest that a long thread shrinks into without losing its originals.

A node of level 0 stands for turns, one of a higher level for nodes. Here is all that is pure about
them: content and rendering, prompt, reading and checking of what a model wrote, and the node that
is made without a model.
"""

from __future__ import annotations

from memory.compression.node_checks import NodeVerdict, check_node
from memory.compression.node_content import (
    EmptyNodeSourceError,
    NodeChild,
    NodeContent,
    NodeSource,
    TimelineEntry,
    fitted,
    render,
    rendered_whole,
)
from memory.compression.node_extractive import extractive_node
from memory.compression.node_parsing import parse_node, read_lines
from memory.compression.node_prompts import node_messages

__all__ = [
    "EmptyNodeSourceError",
    "NodeChild",
    "NodeContent",
    "NodeSource",
    "NodeVerdict",
    "TimelineEntry",
    "check_node",
    "extractive_node",
    "fitted",
    "node_messages",
    "parse_node",
    "read_lines",
    "render",
    "rendered_whole",
]
