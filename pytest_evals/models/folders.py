"""Local model folders: how they differ from names on the Hub, and suggestions for
mistyped paths. Reads file names only."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_evals.errors import OptionError, nearest

PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
"""Files of a processor for images, of which a model has one."""


def is_local(target: str) -> bool:
    """Whether a target is a path here rather than a name on the Hub: when it exists,
    when it is written like one, or when its first part is a folder here:
    ``suites/tinny`` next to a folder ``suites`` is a typing mistake."""
    if target.startswith((".", "/", "~")) or target.count("/") > 1 or "\\" in target:
        return True
    path = Path(target)
    return os.path.exists(path) or ("/" in target and os.path.isdir(path.parent))


def check_folder(target: str, needed: str = "config.json") -> None:
    """Check that a local target is a folder with the required file; if not, an
    ``OptionError`` has the nearest thing that exists."""
    if not is_local(target):
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", target):
            message = "is neither a folder nor a valid name on the Hub (owner/name)"
            raise OptionError(f"{target!r} {message}")
        return
    path = Path(os.path.expanduser(target))
    if not os.path.exists(path):
        hint = _nearest(path, target, needed)
        fix = "" if hint else f"; give a folder with a {needed}, or a name on the Hub"
        raise OptionError(f"no folder {target!r}{hint}{fix}")
    if not os.path.isdir(path):
        raise OptionError(
            f"{target!r} is a file; give the folder of the model, with its {needed}"
        )
    if os.path.isfile(path / needed):
        return
    if os.path.isfile(path / "adapter_config.json"):
        raise OptionError(
            f"{target!r} is an adapter, not a model; "
            f"give the model that it was made for, and peft={target}"
        )
    inside = sorted(str(p.parent.name) for p in path.glob(f"*/{needed}"))
    hint = f"; give the folder of a model, with its {needed}"
    if inside:
        hint = f"; did you mean {str(Path(target) / inside[0])!r}?"
    raise OptionError(f"the folder {target!r} has no {needed}{hint}")


def _nearest(path: Path, target: str, needed: str) -> str:
    """The existing path that differs only in the first missing part."""
    there = next((one for one in (path, *path.parents) if os.path.exists(one)), path)
    missing = path.parts[len(there.parts) :]
    if not os.path.isdir(there):
        return ""
    names = sorted(child.name for child in there.iterdir() if os.path.isdir(child))
    models = [name for name in names if os.path.isfile(there / name / needed)]
    for known in (models, names):
        if near := nearest(missing[0], known):
            shown = Path(target).parents[len(missing) - 1].joinpath(near, *missing[1:])
            return f"; did you mean {str(shown)!r}?"
    return ""


def path_of(target: str) -> str:
    """The path of a local folder, or the name on the Hub."""
    return str(Path(os.path.expanduser(target))) if is_local(target) else target


NO_TOOLS = (
    "the chat template of the model ignores tools\n  fix: test a model whose template "
    "has tools, or an openai: model"
)


def ignores_tools(target: str) -> bool:
    """Whether a folder has a chat template that does not contain the word ``tools``.
    False if the template is not known here."""
    folder = Path(os.path.expanduser(target))
    texts = []
    for path in (folder / "chat_template.jinja", folder / "tokenizer_config.json"):
        try:
            texts.append(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
    is_known = any("chat_template" in text for text in texts) or len(texts) == 2
    has_more = os.path.isdir(folder / "additional_chat_templates")
    return is_known and not has_more and not any("tools" in text for text in texts)


def lacks_image_processor(target: str) -> bool:
    """Whether a folder is a model without a processor for images. False for names on
    the Hub, which are not known here."""
    folder = Path(os.path.expanduser(target))
    has_any = any((folder / name).is_file() for name in PROCESSOR_FILES)
    return folder.is_dir() and not has_any
