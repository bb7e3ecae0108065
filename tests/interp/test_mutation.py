"""The page of mistakes and findings is what the interpreter finds now; the mistakes are what they say."""

import ast
from pathlib import Path

import pytest

from tests.interp.mutants import mistakes, with_mistake, without_faults

pytestmark = pytest.mark.cpu_only
PAGE = Path(__file__).parents[2] / "docs" / "truth" / "faults.md"
SOURCE = """
def factory(fault=None):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as b:
            tile = T.alloc_fragment((64,), "float32")
            if fault != "x":
                T.clear(tile)
            for k in T.serial(4):
                T.copy(A[b * 16], tile)
    return main
"""


def test_a_mistake_changes_one_place_and_leaves_the_tree_as_it_was():
    tree = without_faults(SOURCE)
    (function,) = tree.body
    before = ast.unparse(tree)
    assert "fault !=" not in before
    listed = list(mistakes(function))
    sources = [with_mistake(tree, mistake) for mistake in listed]
    assert ast.unparse(tree) == before
    assert len(set(sources)) == len(sources)
    assert before not in sources
    assert {mistake.kind for mistake in listed} == {
        "dropped clear", "dropped copy", "loop bound", "index off by one", "index off by a tile", "narrow accumulator",
        "swapped statements",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.nightly
def test_the_page_of_mistakes_says_what_is_found_now():
    from tests.interp.mutation import judge_all, page

    assert PAGE.read_text(encoding="utf-8") == page(judge_all())
