"""What TileLang and ptxas really did with a kernel, as plain values to compare with the plan.

`facts` lowers a prim_func without a GPU, `ptxas` compiles the CUDA source where nvcc is present, `ir` reads the tile
program itself. Only modules of this room import tilelang, and only when one of their functions is called.
"""
