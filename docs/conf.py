"""How the documentation site is built: `sphinx-build -W --keep-going docs build/site`, which needs no network."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from types import ModuleType

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

import epsworth

HERE = Path(__file__).parent
PARTS = ["epsworth", *(f"epsworth.{part}" for part in epsworth._PARTS)]

project = "epsworth"
author = copyright = "The epsworth developers"
version = release = importlib.metadata.version("epsworth")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
default_role = "py:obj"  # single backticks in docstrings hold code, and lead to our names
highlight_language = "none"  # indented blocks are shell commands and files
nitpicky = True
# other people's names; ours must exist
nitpick_ignore_regex = [("py:.*", r"(?!epsworth).*|epsworth\.mechanisms\.words")]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "epsworth"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in ("index", "tutorial", "choose")}
html_theme_options = {
    "logo": {"text": "epsworth"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": "plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "only_warn_on_example_error": True,  # which -W makes an error
}


def write_api() -> None:
    """Write a page per part with its public names, from which autosummary makes a page per name."""
    (HERE / "api").mkdir(exist_ok=True)
    for part in PARTS:
        module = importlib.import_module(part)
        told = {name for name in epsworth.__all__ if part != "epsworth" and _same(module, name)}
        lines = [
            part,
            "=" * len(part),
            "",
            f".. currentmodule:: {part}",
            "",
            ".. autosummary::",
            "   :toctree: names",
            "",
        ]
        lines += [f"   {name}" for name in module.__all__ if name not in told]
        if told:
            lines += ["", "Also here: " + ", ".join(f":py:obj:`epsworth.{name}`" for name in sorted(told)) + "."]
        _write(HERE / "api" / f"{part}.rst", "\n".join([*lines, ""]))


def _same(module: ModuleType, name: str) -> bool:
    return name in module.__all__ and getattr(module, name) is getattr(epsworth, name)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:  # an unchanged page is not read again
        path.write_text(text)


def outside(app: Sphinx, docname: str, source: list[str]) -> None:
    """Pages that live elsewhere in the repository are shown here, and links to them lead to them."""
    if docname == "contributing":
        text = (HERE.parent / "CONTRIBUTING.md").read_text()
        source[0] = text.replace("](docs/", "](")
    source[0] = re.sub(
        r"^\*\w+\*\n", lambda line: line[0] * any(HERE.glob(f"{line[0].strip()}.md")), source[0], flags=re.M
    )
    source[0] = re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", "](/contributing.md", source[0])
    source[0] = re.sub(r"\]\((?:\.\./)+README\.md", "](/index.md", source[0])


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Lead from a public name in running text to its page."""
    pages = {page.removeprefix("api/names/") for page in app.env.found_docs if page.startswith("api/names/")}
    for literal in list(doctree.findall(nodes.literal)):
        page = _page_of(literal.astext(), docname.removeprefix("theory/"), pages)
        if page and not isinstance(literal.parent, nodes.reference):
            link = nodes.reference(internal=True, refuri=app.builder.get_relative_uri(docname, f"api/names/{page}"))
            literal.replace_self(link)
            link += literal


def _page_of(text: str, document: str, pages: set[str]) -> str | None:
    prefix, name = re.match(r"(ew\.|epsworth\.)?([\w.]*)", text).groups()
    if prefix or "." in name:
        return next(iter({f"epsworth.{name}"} & pages), None)
    owners = [page for page in pages if page.rpartition(".")[2] == name]
    own = [page for page in owners if page == f"epsworth.{document}.{name}"]
    found = own or [
        page for page in owners if page == f"epsworth.{name}" or name[:1].isupper() or document == "reference"
    ]
    an_option = name.islower() and "_" not in name and "(" not in text  # as likely as the function
    return found[0] if len(found) == 1 and not an_option else None


def visit_inline(writer, node: nodes.math) -> None:
    """Write a formula as MathML: browsers draw it without a script, and screen readers read it."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(writer, node: nodes.math_block) -> None:
    """Write a displayed formula as MathML."""
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Enter the hooks above."""
    write_api()  # before Sphinx looks for pages
    app.connect("source-read", outside)
    app.connect("doctree-resolved", link_names)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
