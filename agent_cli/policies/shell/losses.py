"""What cannot be undone by subcommand: on servers, in clouds and registries, in databases.

Tables of names and no proof, as those of `destructive`, which knows files and git.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise, takewhile
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.effects import known_effect
from agent_cli.policies.shell.starters import OPTION_OF_PROSE
from agent_cli.system.loading import late_pattern

_CONTAINER_LOSSES: Final = (
    *("push", "prune", "volume rm", "compose down -v", "compose down --volumes", "system reset"),
    *("swarm leave --force", "swarm leave -f", "manifest push"),
)
# Arguments that, in this order behind the program, make it irreversible.
_LOSSES: Final[Mapping[str, Sequence[Sequence[str]]]] = MappingProxyType(
    {
        program: tuple(each.split() for each in losses)
        for programs, losses in (
            ("git", ("filter-branch", "filter-repo")),
            ("gh", ("release create", "repo archive", "repo sync --force", "issue transfer")),
            ("npm pnpm", ("publish", "unpublish", "deprecate", "owner rm", "dist-tag rm")),
            ("yarn bun lerna jsr vsce ovsx", ("publish", "unpublish")),
            ("uv poetry hatch flit pdm rye maturin nx rush", ("publish",)),
            ("deno flutter dart sbt mill changeset wasm-pack", ("publish",)),
            ("cargo gem", ("publish", "yank", "owner --remove", "push")),
            ("docker podman nerdctl", _CONTAINER_LOSSES),
            ("nuget", ("push", "delete")),
            ("python python3", ("-m twine upload",)),
            ("manage.py django-admin", ("flush", "reset_db", "migrate zero")),
            ("terraform tofu terragrunt", ("apply -destroy", "state rm", "workspace delete")),
            ("helm", ("del", "un", "push")),
            ("twine anaconda luarocks", ("upload",)),
            ("cabal", ("upload --publish",)),
            ("mix", ("hex.publish",)),
            ("pod", ("trunk push",)),
            ("mvn gradle gradlew", ("deploy", "publish", "flywayClean")),
            ("semantic-release goreleaser", ("",)),
            ("crontab", ("-r",)),
            ("killall5 dropdb dropuser lvremove vgremove pvremove luksformat", ("",)),
            ("mysqladmin", ("drop",)),
            ("docker-compose podman-compose", ("down -v", "down --volumes")),
            ("systemctl", ("poweroff", "reboot", "halt", "kexec")),
            ("loginctl", ("terminate-user", "kill-user")),
            ("cryptsetup", ("luksErase", "erase", "luksFormat", "reencrypt")),
            ("mdadm", ("--zero-superblock",)),
            ("nvme", ("format", "sanitize")),
            ("hdparm", ("--security-erase", "--security-erase-enhanced")),
            ("gpg gpg2", ("--delete-secret-keys", "--delete-secret-and-public-key")),
            ("keytool", ("-delete",)),
            ("userdel deluser", ("-r", "--remove", "--remove-home", "--remove-all-files")),
            ("prisma", ("migrate reset", "db push --force-reset", "db push --accept-data-loss")),
            ("supabase", ("db reset",)),
            ("flyway liquibase", ("clean", "drop-all", "dropAll")),
            ("alembic goose dbmate diesel sqlx migrate", ("downgrade", "reset", "drop", "down")),
            ("dotnet", ("nuget push", "nuget delete", "ef database drop")),
            ("pg_restore", ("--clean", "-c")),
            ("mongorestore", ("--drop",)),
            ("pg_dropcluster", ("",)),
            ("flask", ("db downgrade",)),
            ("dvc", ("gc", "destroy")),
            ("swift", ("delete",)),
            ("diskutil", ("eraseDisk", "eraseVolume", "partitionDisk", "zeroDisk")),
            ("kubectl oc", ("replace --force", "scale --replicas=0", "scale --replicas 0")),
            ("redis-cli valkey-cli keydb-cli iredis", ("del", "unlink", "getdel", "hdel", "xdel")),
            ("aws", ("schedule-key-deletion", "release-address")),
            ("vboxmanage", ("--delete",)),
            ("rclone", ("sync", "cleanup")),
            ("argocd flux", ("app delete", "uninstall")),
            ("tmutil", ("delete",)),
            ("kafka-topics kafka-topics.sh kafka-consumer-groups kafka-configs", ("--delete",)),
        )
        for program in programs.split()
    }
)
_CLOUDS: Final = frozenset(
    {"aws", "gcloud", "gsutil", "az", "doctl", "heroku", "flyctl", "fly", "vercel", "netlify"}
    | {"wrangler", "oci", "linode-cli", "hcloud", "scw", "pulumi", "glab"}
)
# They manage what is elsewhere, or what holds data: their subcommands name what they delete.
_MANAGERS: Final = _CLOUDS | {
    *("gh", "kubectl", "oc", "helm", "terraform", "tofu", "terragrunt", "cdk", "cdktf", "sam"),
    *("eksctl", "kops", "kind", "k3d", "minikube", "velero", "serverless", "sls", "copilot", "eb"),
    *("amplify", "firebase", "supabase", "railway", "render", "ibmcloud", "aliyun", "yc", "exo"),
    *("civo", "vultr", "vultr-cli", "openstack", "b2", "cloudflared", "databricks"),
    *("snow", "s3cmd", "s5cmd", "mc", "rclone", "azcopy", "skopeo", "crane", "oras", "vagrant"),
    *("zfs", "zpool", "btrfs", "virsh", "multipass", "limactl", "colima", "lxc", "incus", "qm"),
    *("restic", "borg", "duplicity", "kopia", "vault", "etcdctl", "consul", "nomad", "influx"),
    *("rabbitmqctl", "rabbitmqadmin", "nats", "pulsar-admin", "op", "bw", "pass", "gopass"),
    *("turso", "neonctl", "planetscale", "pscale", "mongocli", "atlas", "stripe", "okteto"),
    *("huggingface-cli", "hf", "mlflow", "ngrok", "tailscale", "security", "schema"),
}
_DELETES: Final = (
    r"delete|destroy|terminate|purge|deprovision|wipe|rm|rb|down|remove|drop|deregister|erase|nuke"
    r"|obliterate|undefine|undeploy|uninstall|del|forget|prune|flush|drain"
)
_CLOUD_LOSS: Final = late_pattern(rf"(?:--|[\w-]+:)?(?:{_DELETES})(?:-[\w-]+)?")
_MANAGER_LOSS: Final = late_pattern(
    rf"(?:[\w-]+[:-])?(?:{_DELETES})(?:file|dir|dirs|s)?(?:[-_:][\w-]+)?|--?(?:delete|purge)"
)
_DELETING_OPTIONS: Final = frozenset({"--delete", "--purge", "-purge"})
# Behind one of them, a word is a name.
_TAKES_NAMES: Final = late_pattern(
    r"(?:list|ls|view|show|get|describe|read|create|new|edit|exec|invoke)(?:-[\w-]+)?"
)
_READS: Final = frozenset({"status", "search", "diff", "logs", "help"})
_OPTION_OF_NAME: Final = late_pattern(
    r"-n|--(?:[\w-]+-)?(?:names?|namespace|context|profile|project|region|cluster|id|ids|labels?"
    r"|tags?|prefix|suffix|filters?|query|search|selector|pattern|bucket|stack|keys?|values?)"
)
_SUBCOMMANDS_MAX: Final = 4
# The options with which a program only says what it would do, or could.
_TRIES: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        program: late_pattern(rf"--help|{options}")
        for programs, options in (
            ("npm pnpm bun deno jsr cargo poetry uv flutter dart semantic-release", "--dry-run"),
            ("kubectl oc helm", "--dry-run(?:=(?:client|server))?"),
            ("aws", "--dry-?run"),
            ("rclone restic borg s3cmd", "-n|--dry-run"),
            ("manage.py django-admin", "--plan"),
            ("goreleaser", "--snapshot|--version|check"),
            ("gh glab docker podman terraform tofu gcloud az", "-h"),
        )
        for program in programs.split()
    }
)
_INTERPRETER: Final = late_pattern(r"python[\d.]*|pypy\d*")
_TAKES_TRY_BACK: Final = late_pattern(
    r"--no-(?:n|dry-?run)|--dry-?run[= ](?:false|f|no|none|0)", re.IGNORECASE
)
# Npm ignores an option that a subcommand does not know.
_DEAF: Final = frozenset({"deprecate", "owner", "dist-tag"})
# Tasks of a project that empty its database: `rails db:drop`, `artisan migrate:fresh`.
_DATABASE_TASK: Final = late_pattern(
    r"(?:[\w-]+:)*(?:db|database|migrat(?:e|ions?)|ecto|schema|doctrine|pg)[:.](?:\w+[:.])*"
    r"(?:drop|reset|purge|fresh|refresh|wipe|truncate|nuke|rollback|revert|undo|down|redo)"
    r"(?::[\w:]+)?"
)
_DATABASES: Final = frozenset(
    {
        *("psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "cqlsh", "duckdb", "mongosh", "mongo"),
        *("redis-cli", "valkey-cli", "clickhouse-client", "bq", "pgcli", "mycli", "litecli"),
        *("usql", "cockroach", "sqlplus", "isql", "snowsql", "trino", "spark-sql", "beeline"),
        *("influx", "clickhouse", "keydb-cli", "sqlite", "surreal", "turso", "wrangler", "iredis"),
    }
)
DATA_LOSS: Final = late_pattern(
    r"\bdrop\s+(?:table|database|schema|view|index|collection|user|role|column|keyspace|owned"
    r"|materialized|sequence|function|type|extension|tablespace|trigger|measurement|graph)\b"
    r"|\btruncate\b(?!\s*\()|\bdelete\s+(?:(?:low_priority|quick|ignore)\s+)*+"
    r"(?:[\w$`]+(?:\.[\w$`*]+)*+(?:\s*,\s*[\w$`]+(?:\.[\w$`*]+)*+)*+\s+)?from\b|\bflush(?:all|db)\b|dropDatabase"
    r"|\.(?:drop|remove)\s*\(|delete(?:Many|One)",
    re.IGNORECASE,
)
# Of SQL; one that is never closed reaches to the end. What MySQL executes of them is not here.
_COMMENT: Final = late_pattern(r"/\*(?!!)(?:.*?\*/|.*)|(?:--|#)[^\n]*", re.DOTALL)
# In a line that a program prints for redis, or gives it as its input.
_KEYS_LOST: Final = late_pattern(
    r"(?:^|['\"])[ \t]*(?:unlink|(?:get|h|x)?del)\s", re.IGNORECASE | re.MULTILINE
)
_REDIS: Final = frozenset({"redis-cli", "valkey-cli", "keydb-cli", "iredis"})
DELETES_DATA: Final = "deletes from a database, which cannot be undone"
_ALL_PROCESSES: Final = late_pattern(r"-(?:\w*[uU]|-user|-uid|-euid)(?:=.*|\d+)?|\.?[*+]?|\^")


def lost_by_subcommand(name: str, words: Sequence[str]) -> str | None:
    """Return why the program *name* with the arguments *words* cannot be undone, or None."""
    if _INTERPRETER.fullmatch(name) and words and words[0].endswith(".py"):
        return lost_by_subcommand(words[0].rpartition("/")[2], words[1:])
    if _only_tries(name, words):
        return None
    commands = [*map(str.casefold, words)] if name in _REDIS else words
    for loss in _LOSSES.get(name, ()):
        if in_order(loss, commands):
            return f"{_listed_act(name, words) or ' '.join((name, *loss))}, which cannot be undone"
    if name in _CLOUDS and (verb := next(filter(_CLOUD_LOSS.fullmatch, _verbs(words)), None)):
        return f"{name} {verb}, which cannot be undone"
    if name in _MANAGERS and (verb := next(_deleting(name, words), None)):
        does = _listed_act(name, words)
        lost = does if does.startswith("delete") else f"{name} {verb}"
        return f"{lost}, which cannot be undone"
    task = next(filter(_DATABASE_TASK.fullmatch, words[:_SUBCOMMANDS_MAX]), None)
    if task and name != "git" and not _reads(name, words):
        return f"{task} takes data out of a database, which cannot be undone"
    if name in _DATABASES and any(map(has_data_loss, words)):
        return DELETES_DATA
    if name == "kill" and "-1" in words[1:]:
        return "ends every process of the user"
    if name in ("pkill", "killall", "skill") and any(map(_ALL_PROCESSES.fullmatch, words)):
        return "ends every process of a user"
    if name == "journalctl" and any(word.startswith("--vacuum") for word in words):
        return "deletes logs, which cannot be undone"
    return None


def _reads(name: str, words: Sequence[str]) -> bool:
    found = known_effect(name, words)
    return found is not None and found.kind == "reads"


def _listed_act(name: str, words: Sequence[str]) -> str:
    """Return what the call changes, "" if that is not known."""
    found = known_effect(name, words)
    return found.says if found and found.kind == "acts" else ""


def _only_tries(name: str, words: Sequence[str]) -> bool:
    """Return whether an option, which is no other one's value, has the program only say it."""
    if (tries := _TRIES.get(name)) is None:
        return False
    own = [*takewhile(lambda word: word != "--", words)]
    if takes_try_back(own) or not _DEAF.isdisjoint(own):
        return False
    return any(
        tries.fullmatch(word) and not before.startswith("-")
        for before, word in pairwise(("", *own))
    )


def takes_try_back(words: Sequence[str]) -> bool:
    """Return whether one of *words* takes back an option with which a program only tries."""
    return any(
        _TAKES_TRY_BACK.fullmatch(each)
        for before, word in pairwise(("", *words))
        for each in (word, f"{before} {word}")
    )


def _verbs(words: Sequence[str]) -> Iterator[str]:
    """Yield those of *words* that may be subcommands: no texts, and no names of things."""
    for before, word in pairwise(("", *words)):
        is_prose = before.startswith("--") and OPTION_OF_PROSE.fullmatch(before)  # no `gsutil -m`
        if is_prose or _OPTION_OF_NAME.fullmatch(before):
            continue
        if _TAKES_NAMES.fullmatch(word) and not before.startswith("-"):
            return
        yield word


def _deleting(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the subcommands of *name* among *words* that delete something elsewhere."""
    if name == "helm" and words[:1] in (["repo"], ["plugin"]):
        return  # on this machine, and added again
    operands = (
        word for word in _verbs(words) if not word.startswith("-") or word in _DELETING_OPTIONS
    )
    for word in takewhile(lambda word: word not in _READS, islice(operands, _SUBCOMMANDS_MAX)):
        if _MANAGER_LOSS.fullmatch(word):
            yield word


def has_data_loss(text: str) -> bool:
    """Return whether *text* has a statement for a database that deletes tables, rows or keys."""
    return bool(DATA_LOSS.search(text) or DATA_LOSS.search(_COMMENT.sub(" ", text)))


def deletes_data(script: str, programs: Collection[str]) -> bool:
    """Return whether *script*, which starts *programs*, deletes from a database.

    The whole text counts: the statement may stand in a here-document, or come through a pipe.
    """
    if not _REDIS.isdisjoint(programs) and _KEYS_LOST.search(script):
        return True
    return not _DATABASES.isdisjoint(programs) and has_data_loss(script)


def in_order(expected: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the *expected* words are among *words*, in this order."""
    rest = iter(words)
    return all(word in rest for word in expected)
