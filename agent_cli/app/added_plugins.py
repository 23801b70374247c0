"""The plugins that the user added, in a session: their hooks, and where their other parts lie."""

from agent_cli.app.startup import StartupContext
from agent_cli.settings.sources import WrittenHooks
from agent_cli.system import paths


def with_plugins(startup: StartupContext) -> StartupContext:
    """Return *startup* with the added plugins, and a notice for each that cannot be used."""
    own_settings = startup.loaded.settings.plugins
    if not own_settings.enabled or not paths.plugins_file().is_file():
        return startup
    from agent_cli.added_plugins.store import PluginStore  # noqa: PLC0415 - most have none

    found, problems = PluginStore().load()
    used = tuple(each for each in found if each.name not in own_settings.disabled)
    hooks = [
        WrittenHooks(
            event,
            group,
            f"plugin {plugin.name}",
            root=str(plugin.root),
            variables=tuple(plugin.variables.items()),
        )
        for plugin in used
        for event, group in plugin.used_hooks()
    ]
    loaded = startup.loaded
    return startup._replace(
        plugins=used,
        loaded=loaded._replace(hooks=(*loaded.hooks, *hooks)),
        notices=(*startup.notices, *problems),
    )
