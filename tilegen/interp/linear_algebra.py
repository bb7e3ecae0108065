"""One thread for the linear algebra of numpy while the interpreter runs.

Tiles are small. A second thread gains nothing on an idle machine; on a busy one (other processes of ``--jobs``, say) it costs
ten times the product and more, since the threads wait for each other by spinning.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """A context in which matrix products use the thread that calls them; the limits of before are restored after it."""
    return _blas().limit(limits=1)


@cache
def _blas() -> Any:
    """Found once: looking through the libraries of a process takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")
