"""Runs a module as `python -m config.local.tied PARENT MODULE …`, ending when PARENT ends.

A killed `make run` must not leave a web server behind that holds its port.
Source: prctl(2), PR_SET_PDEATHSIG.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Tie this process to its parent, then become the module."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit(1)
    os.execv(sys.executable, [sys.executable, "-m", *command])  # noqa: S606 - our own arguments


if __name__ == "__main__":
    main()
