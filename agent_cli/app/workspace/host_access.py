"""Decide which hosts the commands of a session reach, and ask the person about new ones."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.permissions import RuleScope
from agent_cli.contracts.wording import one_line
from agent_cli.host_proxy.door import Door, Doors, shown
from agent_cli.host_proxy.proxy import Contact
from agent_cli.policies.network_rules import REGISTRIES, rules_for, service_of
from agent_cli.policies.permission_rules import HOST_GROUP
from agent_cli.policies.permissions import Permissions
from agent_cli.system.addresses import HTTP_PORT, HTTPS_PORT, SSH_PORT
from agent_cli.system.temporary_files import OwnFolder

if TYPE_CHECKING:
    from agent_cli.app.person import ModelsPerson

_ONCE, _REFUSE = "Once", "No"
_GROUP: Final = "Registries"
_SCOPES: Final[dict[str, RuleScope]] = {
    "Session": "session",
    "Project": "project",
    "Always": "everywhere",
}
_ASKED_PORTS: Final = (HTTP_PORT, HTTPS_PORT, SSH_PORT)
_COMMAND_CHARS_MAX: Final = 80
_CONTACTS_MAX: Final = 1_000
# A command that tries names in turn must not wear the person out.
_REFUSALS_MAX: Final = 3


class HostAccess:
    """The hosts that commands asked for, and the doors by which they reach them; `close` it.

    Attributes:
        contacts: Each host and port, and why it was refused; "" if it was reached.
        refused: The hosts that were refused because nobody could be asked.
    """

    def __init__(
        self, person: "ModelsPerson | None", permissions: Callable[[], Permissions]
    ) -> None:
        """Ask *person*; without one, commands reach what rules of *permissions* allow."""
        self.contacts: dict[str, str] = {}
        self.refused: dict[str, None] = {}
        self.person = person
        self.permissions = permissions
        self.asking = asyncio.Lock()
        self._folder: OwnFolder | None = None
        self._doors = Doors(self._own_folder)

    def open(
        self, command: str, standing_still: Callable[[], AbstractContextManager[None]]
    ) -> Door:
        """Return the way out of *command*, whose time limits do not run in *standing_still*.

        Raises:
            OSError: It cannot be made.
        """
        return self._doors.open(CommandHosts(self, command, standing_still))

    def close(self) -> None:
        """End every connection."""
        self._doors.close()
        if self._folder:
            self._folder.remove()

    def _own_folder(self) -> Path:
        if self._folder is None or not self._folder.path.is_dir():
            self._folder = OwnFolder()
        return self._folder.path


class CommandHosts:
    """The hosts of one command."""

    def __init__(
        self,
        access: HostAccess,
        command: str,
        standing_still: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._access = access
        self._command = one_line(command, _COMMAND_CHARS_MAX)
        self._standing_still = standing_still
        self._answered: dict[tuple[str, int], str] = {}
        self._refusals = 0

    def note(self, contact: Contact) -> None:
        """Remember that the command reached a host, or did not, if there are not too many."""
        host, contacts = shown(contact.host, contact.port), self._access.contacts
        if host in contacts or len(contacts) < _CONTACTS_MAX:
            contacts[host] = contact.refusal

    async def decide(self, host: str, port: int) -> str:
        """Return "" if the command may reach *host* at *port*, or why not."""
        if (known := self._known(host, port)) is not None:
            return known
        with self._standing_still():
            # One question at a time; the answer to the one before may hold for this host too.
            async with self._access.asking:
                if (known := self._known(host, port)) is None:
                    known = await self._asked(host, port)
        return known

    def _known(self, host: str, port: int) -> str | None:
        """Return the verdict of rules and earlier answers; None if a person is to be asked."""
        found = self._access.permissions().about_host(host, port)
        kind, rule = found or (None, None)
        if kind == "deny":
            return f"{shown(host, port)} is denied by the rule {rule}"
        if (host, port) in self._answered:
            return self._answered[host, port]
        if kind == "allow":
            return ""
        if port not in _ASKED_PORTS:
            [written] = rules_for((host,), port)
            return f"port {port} of {host} takes the permission rule {written}"
        if self._refusals == _REFUSALS_MAX:
            return f"the user refused other hosts of this command, so {host} was not asked about"
        return None

    async def _asked(self, host: str, port: int) -> str:
        service, hosts = self._hosts(host, port)
        [first, *_] = rules_for((host,), port)
        person = self._access.person
        if person is None or not person.can_ask:
            if len(self._access.refused) < _CONTACTS_MAX:
                self._access.refused[shown(host, port)] = None
            return (
                f"no rule allows {shown(host, port)}, and nobody can be asked; the user can allow"
                f" it with the permission rule {first}"
            )
        is_lasting = self._access.permissions().about_host(host, port) is None
        question = _question(self._command, service, hosts, port, is_lasting=is_lasting)
        lasting = (*_SCOPES, _GROUP)
        answer = await person.choose(question, "The command", lasting=lasting)
        refusal = ""
        if answer == _GROUP:
            refusal = self._allow((f"network({HOST_GROUP})",), "project")
        elif answer in _SCOPES:
            refusal = self._allow(rules_for(hosts, port), _SCOPES[answer])
        elif answer != _ONCE:
            words = "" if answer in (None, _REFUSE) else f": {answer}"
            refusal = f"the user refused {shown(host, port)}{words}"
            self._refusals += 1
        for each in hosts:
            self._answered[each, port] = refusal
        return refusal

    def _hosts(self, host: str, port: int) -> tuple[str, Sequence[str]]:
        """Return the service that *host* belongs to, and the hosts to ask about with it."""
        found = service_of(host) if port in (HTTP_PORT, HTTPS_PORT) else None
        if found is None:
            return "", (host,)
        name, hosts = found
        return name, [host, *(each for each in hosts if each != host and self._is_open(each, port))]

    def _is_open(self, host: str, port: int) -> bool:
        return self._access.permissions().about_host(host, port) is None

    def _allow(self, rules: Sequence[str], scope: RuleScope) -> str:
        try:
            self._access.permissions().allow_hosts(rules, scope)
        except SettingsError as error:
            return f"the answer could not be stored: {error}"
        return ""


def _question(
    command: str, service: str, hosts: Sequence[str], port: int, *, is_lasting: bool
) -> UserQuestion:
    names = [shown(host, port) for host in hosts]
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    of = f"{service}: " if service else ""
    options = [Option(label=_ONCE, description="this command")]
    if is_lasting:
        options += [
            Option(label="Session", description="all commands until the session ends"),
            Option(label="Project", description="all commands in this project, from now on"),
            Option(label="Always", description="all commands in every project"),
        ]
    if is_lasting and service:
        others = ", ".join(name for name in REGISTRIES if name != service)
        about = f"in this project all package registries and git hosts: {service}, {others}"
        options.append(Option(label=_GROUP, description=about))
    options.append(Option(label=_REFUSE, description="the command is told so"))
    return UserQuestion(
        question=f"`{command}` wants to reach {of}{listed}.", header="network", options=options
    )
