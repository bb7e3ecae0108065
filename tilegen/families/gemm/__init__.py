"""C = epilogue(A @ B)."""
