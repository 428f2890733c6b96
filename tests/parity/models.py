"""The two models of the recordings: the bundled one, and a copy of it whose tokenizer
puts a BOS token before each text, including chats."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "example_suites" / "tiny"
CHAT = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] "
    "{{ message['content'] }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n[assistant] ' }}{% endif %}"
)


def model_folder(name: str, place: Path) -> Path:
    """The folder of a model: ``tiny``, or ``bos``, which is created in ``place``."""
    if name == "tiny":
        return TINY
    shutil.copytree(TINY, place, dirs_exist_ok=True)
    path = place / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    begin = tokenizer["added_tokens"][0]
    text, token = begin["content"], {"id": begin["content"], "type_id": 0}
    tokenizer["post_processor"] |= {
        "single": [{"SpecialToken": token}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {text: {"id": text, "ids": [begin["id"]], "tokens": [text]}},
    }
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (place / "chat_template.jinja").write_text(CHAT, encoding="utf-8")
    return place
