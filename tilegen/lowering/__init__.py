"""What TileLang 0.1.15 will do with a tile, predicted from integers.

Each module states one rule of the compiler in words, cites where it was read, and computes it with plain integers:
tile sizes in elements, `itemsize` in bytes. No tilegen plan, no sympy and no tilelang is needed to ask. The truth test
lowers a sample with the real compiler and fails where a prediction differs.
"""
