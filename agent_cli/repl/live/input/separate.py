"""Show combined emoji in the input one by one.

Terminals disagree about the width of a family, a skin tone or a red heart (1 to 8 cells), so the
cursor would not stand where the editor takes it to be. Without the characters that join or change
them, all agree.
"""

import re
from bisect import bisect_left
from typing import Final

from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

# The zero-width joiner, the variation selectors, the skin tones.
_COMBINES: Final = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


def separated(text: str) -> str:
    """Return *text* without those characters."""
    return text if text.isascii() else _COMBINES.sub("", text)


class SeparateEmoji(Processor):
    """Hides the joining characters on the screen; they stay in the text."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the fragments to show, and how positions in them and in the text correspond."""
        fragments = transformation_input.fragments
        text = fragment_list_to_text(fragments)
        if text.isascii() or not _COMBINES.search(text):
            return Transformation(fragments)
        kept = [at for at, character in enumerate(text) if not _COMBINES.match(character)]
        shown = [each for each in explode_text_fragments(fragments) if not _COMBINES.match(each[1])]
        return Transformation(
            shown,
            source_to_display=lambda at: bisect_left(kept, at),
            display_to_source=lambda at: kept[at] if at < len(kept) else len(text),
        )
