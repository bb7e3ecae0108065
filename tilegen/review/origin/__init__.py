"""Where a line of generated code comes from: the lines of the spec that decide it, and the rules that hold them."""

from tilegen.review.origin.lines import Cause, Origin, origins

__all__ = ["Cause", "Origin", "origins"]
