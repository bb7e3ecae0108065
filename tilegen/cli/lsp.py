"""``tilegen lsp``: a language server for specs, over stdio."""

from __future__ import annotations

import sys

import click


@click.command
def command() -> None:
    """Serve editors: findings while typing, help under the cursor, mends as edits. Speaks LSP over stdin and stdout.

    docs/review.md says how to set up an editor.
    """
    try:
        from tilegen.lsp.server import server
    except ImportError:
        click.echo("error: `tilegen lsp` needs pygls: pip install 'tilegen[lsp]'", err=True)
        sys.exit(2)
    server().start_io()
