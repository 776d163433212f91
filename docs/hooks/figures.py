"""Shows figures of results/ on the pages, without a second copy in docs/.

A page links to ../results/NAME.png as it is in the repository, so the link works there as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"\]\(\.\./((?:\.\./)*results/[\w-]+\.png\))")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Called by MkDocs with the files of docs/; adds the figures."""
    root = Path(config.config_file_path).parent
    for path in sorted(root.glob("results/*.png")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page: results/ is one folder nearer there."""
    return LINK.sub(r"](\1", markdown)
