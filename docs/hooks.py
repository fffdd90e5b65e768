"""What MkDocs does for this site beyond its plugins: adds the pages that `site_pages` makes, and turns links around."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from site_pages.mathematics import math_fence
from site_pages.references import make_references
from site_pages.repository import Repository

ROOT = Path(__file__).resolve().parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Equations: GitHub and the site read the same fenced blocks."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": math_fence})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the front page, the references, and what pages link to outside `docs/`, and so on from there."""
    references = make_references(ROOT)
    repository = Repository(ROOT, frozenset(references))
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    added = {"index.md": repository.shown("README.md"), **references}
    waiting = [*texts.items(), *added.items()]
    while waiting:
        uri, text = waiting.pop()
        for path in repository.linked(uri, text):
            place = repository.place(path)
            if place is not None and place not in added and files.get_file_from_path(place) is None:
                added[place] = repository.shown(path)
                waiting.append((place, added[place]))
    for uri, text in added.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links into the repository become links to the pages that show it; a search finds the references first."""
    if page.file.src_uri.startswith("reference/"):
        page.meta["search"] = {"boost": 3}
    elif page.file.inclusion is InclusionLevel.NOT_IN_NAV:
        # A recipe's file, say, would come before the page that explains its keys.
        page.meta["search"] = {"exclude": True}
    elif page.is_homepage:
        page.meta["hide"] = ["navigation"]  # a list of one: its place is better used by the page
    made = frozenset(file.src_uri for file in files if file.generated_by is not None)
    return Repository(ROOT, made).relinked(page.file.src_uri, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The theme's search dialog gets the name under which a screen reader tells of it."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
