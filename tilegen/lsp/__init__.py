"""A language server for specs: findings while typing, help under the cursor, and mends as edits."""
