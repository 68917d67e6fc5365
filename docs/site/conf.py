"""Sphinx: the pages of docs/ and the headers' own words, as a site. tools/build_site.sh runs it."""
import pathlib
import re

project = "graphpipe"
author = "The graphpipe authors"
root = pathlib.Path(__file__).resolve().parents[2]
release = re.search(r"project\(graphpipe VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser", "breathe"]
root_doc = "index"
include_patterns = ["index.md", "docs/**.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
html_theme = "furo"
html_title = f"graphpipe {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
highlight_language = "none"
myst_heading_anchors = 3
breathe_projects = {"graphpipe": str(root.parent / "headers/xml")}
breathe_default_project = "graphpipe"
breathe_show_include = False
suppress_warnings = ["myst.header"]

# Figures stay beside their programs: the site names the page that it does not have.
FIGURES = re.compile(r"\[([^\]]*)\]\((?:\.\./)*(bench/[\w/]+/README\.md)\)")


def name_figures(app, page, source):
    source[0] = FIGURES.sub(r"\1 (`\2`)", source[0])


def setup(app):
    app.connect("source-read", name_figures)
