"""What a launcher repeats of the host function that TileLang makes."""

import pytest

from tests.aot.two_boxes import two_boxes
from tilegen.aot.launch import read_launch


def test_two_boxes_of_one_tensor_are_two_tensor_maps_each_passed_where_it_belongs():
    tilelang = pytest.importorskip("tilelang")
    from tilelang import tvm

    prim_func = two_boxes()
    with tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}) as target:
        artifact = tilelang.lower(prim_func, target=target)
    launch = read_launch(prim_func, artifact.host_mod, artifact.device_mod)
    assert [(entry.name, entry.box) for entry in launch.tensor_maps] == [
        ("y_desc", ("64", "64")),
        ("y_desc_1", ("32", "64")),
    ]
    (kernel,) = launch.kernels
    assert [entry.text for entry in kernel.arguments if entry.c_type == "CUtensorMap"] == ["y_desc", "y_desc_1"]
