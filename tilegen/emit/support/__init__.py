"""Files that are copied beside every generated kernel as they are."""
