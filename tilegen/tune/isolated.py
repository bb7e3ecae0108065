"""A worker process that a hang or a crash cannot hurt anyone else by: requests go in and replies come out as JSON lines,
each within a limit of time. A worker that breaks the limit, or dies, is killed with all it started; the next request gets a
fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

START_LIMIT_S = 120.0


class CandidateError(Exception):
    """The request failed inside the worker: the message says why."""


class HungError(CandidateError):
    """No reply within the limit; the worker was killed."""


class CrashedError(CandidateError):
    """The worker died over the request."""


class Isolated:
    """``bench`` names what serves requests, as ``module:factory``; the factory is called with ``config`` in the worker."""

    def __init__(self, bench: str, config: Mapping[str, Any]) -> None:
        self._bench = bench
        self._config = dict(config)
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._greeted = False

    def ask(self, method: str, arguments: Mapping[str, Any], limit_s: float) -> Any:
        """The value that ``method(**arguments)`` gives in the worker. Raises :class:`CandidateError`."""
        process = self._ready()
        self._send(process, {"method": method, "arguments": dict(arguments)})
        reply = self._receive(process, limit_s)
        if reply.get("fatal"):
            self.close()
        if "error" in reply:
            raise CandidateError(reply["error"])
        return reply["value"]

    def close(self) -> None:
        """Kills the worker and all that it started."""
        process, self._process, self._pending, self._greeted = self._process, None, b"", False
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def start(self) -> None:
        """Begins the worker without waiting for it, so that it is ready sooner."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        command = [sys.executable, "-m", "tilegen.tune.worker", self._bench, json.dumps(self._config)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def _ready(self) -> subprocess.Popen[bytes]:
        self.start()
        process = self._process
        assert process is not None
        if not self._greeted:
            self._receive(process, START_LIMIT_S)
            self._greeted = True
        return process

    def _send(self, process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._death(process) from None

    def _receive(self, process: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any]:
        assert process.stdout is not None
        ends = time.monotonic() + limit_s
        while b"\n" not in self._pending:
            left = ends - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.close()
                raise HungError(f"no reply within {limit_s:g} s")
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                raise self._death(process)
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _death(self, process: subprocess.Popen[bytes]) -> CrashedError:
        code = process.wait()
        self.close()
        if code < 0:
            return CrashedError(f"the worker was killed by {signal.Signals(-code).name}")
        return CrashedError(f"the worker ended with exit code {code}")
