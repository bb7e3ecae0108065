"""Runs a Python script or module as ``python`` does, with its TileLang kernels interpreted."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import tilelang
import torch

import tilegen
from tilegen.interp.cpu_for_cuda import cpu_for_cuda
from tilegen.interp.findings import InvalidKernelError, UnsupportedError
from tilegen.interp.interpreted import Session, interpreted
from tilegen.targets import Target

_OUR_FOLDERS = tuple(f"{Path(module.__file__ or '').parent}{os.sep}" for module in (tilegen, tilelang))


@dataclass(frozen=True)
class Outcome:
    """What a script did: the calls of its kernels, its exit status, and the text of what it raised (or nothing)."""

    session: Session
    status: int
    raised: str = ""


def run_script(
    name: str, arguments: Sequence[str], *, is_module: bool, chip: Target, jobs: int = 1, allow: Collection[str] = ()
) -> Outcome:
    """Run the file (or the module) ``name`` as ``__main__``; ``chip`` is what ``torch.cuda`` describes if there is no GPU.

    Findings are collected, and stop nothing. Whatever the script raises ends it, and is given as text, from its own frames on.
    """
    argv, path = sys.argv, list(sys.path)
    sys.argv = [name, *arguments]
    sys.path.insert(0, "" if is_module else str(Path(name).resolve().parent))
    with ExitStack() as contexts:
        if not torch.cuda.is_available():
            contexts.enter_context(cpu_for_cuda(chip))
        session = contexts.enter_context(interpreted(jobs=jobs, strict=False, allow=allow))
        try:
            if is_module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(name, run_name="__main__")
        except SystemExit as error:
            return Outcome(session, _status(error))
        except (UnsupportedError, InvalidKernelError) as error:
            return Outcome(session, 2, _text(error))
        except Exception as error:
            return Outcome(session, 1, _text(error))
        finally:
            sys.argv, sys.path[:] = argv, path
    return Outcome(session, 0)


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def _text(error: BaseException) -> str:
    """As Python prints it, without the frames of what ran the script and of what called the kernel."""
    printed = traceback.TracebackException.from_exception(error)
    printed.stack = traceback.StackSummary.from_list([frame for frame in printed.stack if not _is_ours(frame.filename)])
    return "".join(printed.format())


def _is_ours(file: str) -> bool:
    return file.startswith(("<frozen", *_OUR_FOLDERS))
