"""agent-cli in the chats of JupyterLab: copy this file to `.jupyter/personas/`.

Jupyter AI loads it from that folder beside your notebooks; its chats then offer agent-cli.
"""

from typing import Any

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults


class AgentCliPersona(BaseAcpPersona):
    """A coding agent that reads and changes the files of the folder the chat is in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Start `agent-cli acp` with the first message to it."""
        super().__init__(*args, executable=["agent-cli", "acp"], **kwargs)

    @property
    def defaults(self) -> PersonaDefaults:
        """The name that the chat shows; the model and the mode are chosen in the chat's menu."""
        return PersonaDefaults(
            name="agent-cli",
            description="A coding agent that works on the files of this folder",
            avatar_path="",
            system_prompt="",
        )
