"""What the documentation needs beside its pages: result files, the options of commands, nothing from elsewhere."""

import ast
import re
from pathlib import Path

import typer
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from diffmask.cli.main import app

ROOT = Path(__file__).parents[1]
RESULTS = re.compile(r"(\]\()(?:\.\./)+results/")  # links that lead out of docs/, as they do on a code host
COMMANDS = "<!-- commands -->"
DOCSTRING = re.compile(r"<!-- docstring: (\S+) -->")  # a file of the package, whose first lines say it best
FETCHED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")


def on_files(files, config):
    """Put result files and their pictures into the site, so that what pages link to is there."""
    for path in sorted((ROOT / "results").glob("*.*")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead links to results/ to where they are in the site, and write down the commands."""
    up = "../" * page.file.src_uri.count("/")
    markdown = RESULTS.sub(rf"\g<1>{up}results/", markdown)
    markdown = DOCSTRING.sub(lambda found: docstring(found[1]), markdown)
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


def on_post_page(output, page, config):
    """Refuse a page that would load anything from another host."""
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch from another host: {found[0]}")
    return output


def docstring(path):
    """Return what a file says of itself, without its title."""
    said = ast.get_docstring(ast.parse((ROOT / "src" / "diffmask" / path).read_text())) or ""
    return said.partition("\n\n")[2]


def commands():
    """Describe every command: what it does, an example, its options."""
    return "\n\n".join(described(name, command) for name, command in typer.main.get_command(app).commands.items())


def described(name, command):
    rows = "\n".join(f"| {called(each)} | {cell(each.help)} | {default(each)} |" for each in command.params)
    example = (command.epilog or "").removeprefix("Example: ")
    title = f"## `diffmask {name}`\n\n{command.help}\n\n```sh\n{example}\n```"
    return f"{title}\n\n| option | meaning | default |\n|---|---|---|\n{rows}"


def called(option):
    if option.param_type_name == "argument":
        return f"`{(option.metavar or option.name).upper()}`"
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts] if name != "--help")


def cell(text):
    return (text or "").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def default(option):
    value = getattr(option.default, "value", option.default)
    return "" if value in (None, False, (), []) or callable(value) or option.required else f"`{value}`"
