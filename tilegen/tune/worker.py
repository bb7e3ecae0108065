"""The process that :class:`tilegen.tune.isolated.Isolated` talks to: ``python -m tilegen.tune.worker MODULE:FACTORY CONFIG``.

Replies leave by the standard output that the process was given; what libraries print goes nowhere.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1


class FatalError(Exception):
    """A failure after which this process can serve nothing else: a broken CUDA context."""


def main() -> None:
    _die_with_parent()
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    name, config = sys.argv[1:]
    module, _, factory = name.partition(":")
    bench = getattr(importlib.import_module(module), factory)(json.loads(config))
    print(json.dumps({"value": "ready"}), file=replies)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_reply(bench, request["method"], request["arguments"])), file=replies)


def _die_with_parent() -> None:
    """Where the search is killed, so is this process, even if it hangs (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _reply(bench: Any, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": getattr(bench, method)(**arguments)}
    except FatalError as error:
        return {"error": str(error), "fatal": True}
    except Exception as error:  # a candidate fails as TileLang, nvcc, torch or the driver like to
        lines = str(error).strip().splitlines()
        return {"error": f"{type(error).__name__}: {lines[-1][:300] if lines else ''}"}


if __name__ == "__main__":
    main()
