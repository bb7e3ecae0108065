"""What stands in for a GPU in the tests of the search: times that follow from the tiling, and faults on demand.

It runs in real worker processes. ``config["planted"]`` maps a fault to the value of ``stages`` that has it.
"""

import os
import signal
import time
from pathlib import Path


def seconds_of(tiles):
    """The fastest has stages 7; the default of the tests, stages 4, takes 40 us."""
    return (10 + 10 * abs(7 - tiles["stages"])) * 1e-6


class Bench:
    def __init__(self, config):
        self.config = config
        print("a library that is loud on the standard output")

    def _note(self, what):
        if "log" in self.config:
            with Path(self.config["log"]).open("a") as log:
                log.write(what + "\n")

    def _fault(self, where, tiles):
        fault = self.config.get("planted", {}).get(str(tiles["stages"]))
        if fault == f"{where} hangs":
            time.sleep(3600)
        if fault == f"{where} crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == f"{where} exits":
            os._exit(3)
        if fault == f"{where} raises":
            raise ValueError("planted")

    def compile(self, tiles):
        self._note(f"compile {tiles['stages']}")
        self._fault("compile", tiles)
        return "compiled"

    def measure(self, candidates, rounds):
        self._note("measure " + " ".join(str(tiles["stages"]) for tiles in candidates))
        time.sleep(self.config.get("slow", 0))
        for tiles in candidates:
            self._fault("measure", tiles)
        return [[seconds_of(tiles)] * rounds for tiles in candidates]

    def echo(self, value):
        return value

    def pid(self):
        return os.getpid()
