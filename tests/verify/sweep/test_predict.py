"""What a program is: the part of a rendered source that its build function needs."""

import ast

from tilegen.verify.sweep.draw import draw
from tilegen.verify.sweep.predict import bare, predict

SOURCE = '''
"""Budget: 3 registers."""
import tilegen_free as T
import unused

LIMIT = 4  # a comment

def helper(x):
    """Doc."""
    return T.f(x, LIMIT)

def elsewhere():
    return 1

def tiles(n):
    return n

def build(n, **tiles):
    return helper(n)
'''


def test_a_program_is_what_build_reaches():
    kept = ast.parse(bare(SOURCE))
    assert [type(node).__name__ for node in kept.body] == ["Import", "Assign", "FunctionDef", "FunctionDef"]
    assert "Doc" not in bare(SOURCE)


def test_words_do_not_change_a_program():
    assert bare(SOURCE) == bare(SOURCE.replace("3 registers", "4 registers").replace("return 1", "return 2"))
    assert bare(SOURCE) != bare(SOURCE.replace("LIMIT = 4", "LIMIT = 5"))


def test_a_rejected_sample_has_a_program_too():
    found = [predict(draw("gemm", "sm_90a", 7, index)) for index in range(12)]
    assert any(not entry.verdict.accepted for entry in found)
    assert all(entry.program is not None and entry.kernels for entry in found)
