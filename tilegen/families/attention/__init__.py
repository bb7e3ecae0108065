"""Attention: softmax(Q K^T) V and its relatives."""
