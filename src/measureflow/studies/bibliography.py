"""The bibliography that claims cite, by key: authors, title and year as a sentence.

The file is `docs/references.bib`; an installed package has a copy of it beside this module.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303", "c": "\u0327", "v": "\u030c"}
LETTERS = {r"\o": "ø", r"\O": "Ø", r"\l": "ł", r"\L": "Ł", r"\ss": "ß", r"\&": "&"}


@dataclass(frozen=True)
class Reference:
    """An entry of the bibliography; what it does not say is empty."""

    key: str
    author: str = ""
    title: str = ""
    journal: str = ""
    booktitle: str = ""
    year: str = ""
    note: str = ""

    def __str__(self) -> str:
        """The entry as a sentence, without links."""
        authors = self.author.replace(" and ", "; ")
        place = [part for part in (self.journal or self.booktitle, self.year, self.note) if part]
        stop = "" if self.title.endswith(("?", "!", ".")) else "."
        return f"{authors}{': ' * bool(authors)}{self.title}{stop} {', '.join(place)}"


@cache
def references() -> dict[str, Reference]:
    """All entries of the bibliography by their keys."""
    text = source().read_text(encoding="utf-8")
    found = re.findall(r"^@\w+\{([^,\s]+),(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    return {key: Reference(key, **_fields(body)) for key, body in found}


def source() -> Path:
    """The file of the bibliography: in an installed package beside this module, otherwise among the documents."""
    installed = HERE / "references.bib"
    return installed if installed.is_file() else HERE.parents[2] / "docs" / "references.bib"


def _fields(body: str) -> dict[str, str]:
    braced = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"  # braces in braces in braces, as in {G{\"o}{\c{c}}}
    found = re.findall(rf"^\s*(\w+)\s*=\s*{braced}", body, re.MULTILINE)
    return {name: _plain(value) for name, value in found if name in Reference.__dataclass_fields__}


def _plain(text: str) -> str:
    """Text without the accents and braces of TeX."""
    for word, letter in LETTERS.items():
        gap = r"\s*" if word[1].isalpha() else ""  # a space only ends a word
        text = re.sub(re.escape(word) + r"(?![A-Za-z])" + gap, letter, text)
    accent = r"\\(?:(['`\"^~])|([cv])(?=[\s{]))\s*\{?\\?([A-Za-z])\}?"
    text = re.sub(accent, lambda found: found[3] + ACCENTS[found[1] or found[2]], text)
    return unicodedata.normalize("NFC", " ".join(re.sub(r"[{}]", "", text).replace("--", "–").split()))
