"""What a program is: the part of a rendered source that its build function needs."""

import ast

from tilegen.verify.sweep.program import bare

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
    kept = ast.parse(bare(SOURCE, {}))
    assert [type(node).__name__ for node in kept.body] == ["Import", "Assign", "FunctionDef", "FunctionDef"]
    assert "Doc" not in bare(SOURCE, {})


def test_words_do_not_change_a_program():
    assert bare(SOURCE, {}) == bare(SOURCE.replace("3 registers", "4 registers").replace("return 1", "return 2"), {})
    assert bare(SOURCE, {}) != bare(SOURCE.replace("LIMIT = 4", "LIMIT = 5"), {})


FACTORY = """
LANES = 8

def kernel(split, stages):
    stages = max(stages, 1)
    def whole():
        return 1
    def part():
        return LANES
    if stages == 1:
        whole = None
    if not split:
        return whole
    if split == "even":
        return part
    return part(2)

def build(arch, **tiles):
    return kernel(**tiles)
"""


def test_a_branch_that_the_key_rules_out_is_no_part_of_a_program():
    key = {"arch": "sm_90a", "split": False, "stages": 2}
    kept = bare(FACTORY, key)
    assert "def whole" in kept
    assert "part" not in kept
    assert "LANES" not in kept
    assert kept == bare(FACTORY.replace("LANES = 8", "LANES = 4"), key)


def test_the_branch_that_a_key_takes_stays():
    kept = bare(FACTORY, {"arch": "sm_90a", "split": "even", "stages": 2})
    assert "return part\n" in kept
    assert "part(2)" not in kept
    assert "LANES" in kept


def test_a_parameter_that_is_set_anew_decides_nothing():
    assert "if stages == 1" in bare(FACTORY, {"arch": "sm_90a", "split": False, "stages": 1})
