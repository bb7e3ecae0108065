"""Kills a process at its n-th change of the file system. Audit events of the interpreter stand before every change."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CHANGES = {
    *("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.truncate", "os.utime"),
    *("shutil.copyfile", "shutil.rmtree", "ctypes.dlsym"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
KILLED = 137


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Runs ``action`` in a child that dies just before its change number ``step``; False if it had fewer changes.

    It dies by ``os._exit``: no ``finally`` runs and no buffer is flushed, so a file may be left open and half-written.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def hook(event: str, arguments: tuple) -> None:
            nonlocal seen
            if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
                if seen == step:
                    os._exit(KILLED)
                seen += 1

        try:
            sys.addaudithook(hook)
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), code
    return code == KILLED
