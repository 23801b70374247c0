"""Plugins as an installer leaves them: a module beside the metadata that names its entry point."""

from pathlib import Path


def install_plugin(
    folder: Path, module: str, source: str, *, offers: str, group: str = "agent_cli.plugins"
) -> Path:
    """Write *module* with *source* into *folder*, which is to be on the import path; return that.

    Args:
        folder: Made if needed.
        module: The name of the module and of its distribution, version 0.1.
        source: The text of the module.
        offers: The entry point in *group*, as "name = module:object".
        group: The group of entry points.
    """
    metadata = folder / f"{module}-0.1.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{offers}\n")
    return folder
