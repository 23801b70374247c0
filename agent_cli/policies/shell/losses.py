"""Losses by subcommand that cannot be undone: on servers, in clouds, registries and databases.

Tables of names and no proof, as those of `destructive`, which knows files and git.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, takewhile
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.data_losses import lost_by_statement, lost_by_task
from agent_cli.policies.shell.effects import is_known, known_effect
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import OPTION_OF_PROSE
from agent_cli.system.loading import late_pattern

_CONTAINER_LOSSES: Final = (
    *("prune", "push", "volume rm", "compose down -v", "compose down --volumes", "system reset"),
    *("swarm leave --force", "swarm leave -f", "manifest push", "machine rm", "machine reset"),
    *("stack rm", "service rm", "secret rm", "config rm", "rm --all", "rmi --all"),
    *(f"rm -{flags}" for flags in ("v", "fv", "vf", "fsv", "sfv", "a", "af", "fa")),
    *(f"rmi -{flags}" for flags in ("a", "af", "fa")),
)
_SCALED_TO_NONE: Final = ("scale --replicas=0", "scale --replicas 0")
_SQLX: Final = ("sqlx database drop", "sqlx database reset")
_OF_BUILDS: Final = ("flywayClean", "flyway:clean", "liquibaseDropAll", "liquibase:dropAll")
# Arguments that, in this order behind the program, make it irreversible.
_LOSSES: Final[Mapping[str, Sequence[Sequence[str]]]] = MappingProxyType(
    {
        program: tuple(each.split() for each in losses)
        for programs, losses in (
            ("git", ("filter-branch", "filter-repo", "delete-branch", "delete-tag", "obliterate")),
            ("gh", ("release create", "repo archive", "repo sync --force", "issue transfer")),
            ("npm pnpm", ("publish", "unpublish", "deprecate", "owner rm", "dist-tag rm")),
            ("yarn bun lerna jsr vsce ovsx", ("publish", "unpublish")),
            ("uv poetry hatch flit pdm rye maturin nx rush", ("publish",)),
            ("deno flutter dart sbt mill changeset wasm-pack", ("publish",)),
            ("cargo gem", ("publish", "yank", "owner --remove", "owner -r", "push", *_SQLX)),
            ("docker podman nerdctl", _CONTAINER_LOSSES),
            ("nuget", ("push", "delete")),
            ("python python3", ("-m twine upload",)),
            ("manage.py django-admin", ("flush", "reset_db", "migrate zero")),
            ("terraform tofu terragrunt", ("apply -destroy", "state push", "workspace delete")),
            ("helm", ("del", "un", "push")),
            ("twine anaconda luarocks", ("upload", "remove")),
            ("cabal mix", ("upload --publish", "hex.publish")),
            ("pod", ("trunk push", "trunk delete", "trunk deprecate")),
            ("mvn mvnw gradle gradlew", ("deploy", "publish", "release:perform", *_OF_BUILDS)),
            ("semantic-release goreleaser", ("",)),
            ("crontab", ("-r", "-ir", "-ri", "/dev/null")),
            ("killall5 dropdb dropuser lvremove vgremove pvremove", ("",)),
            ("lvreduce vgreduce luksformat trash-empty trash-rm lxc-destroy bfg", ("",)),
            ("docker-compose podman-compose", ("down -v", "down --volumes", "rm -v", "rm -fsv")),
            ("systemctl", ("poweroff", "reboot", "halt", "kexec")),
            ("loginctl", ("terminate-user", "kill-user")),
            ("cryptsetup", ("luksErase", "erase", "luksFormat", "reencrypt")),
            ("hdparm", ("--security-erase", "--security-erase-enhanced")),
            ("mdadm keytool", ("--zero-superblock", "-delete")),
            ("userdel deluser", ("-r", "--remove", "--remove-home", "--remove-all-files")),
            ("prisma", ("migrate reset", "db push --force-reset", "db push --accept-data-loss")),
            ("supabase gio", ("db reset", "stop --no-backup", "trash --empty")),
            ("flyway liquibase", ("clean", "drop-all", "dropAll")),
            ("dotnet", ("nuget push", "nuget delete", "ef database drop", "ef database update 0")),
            ("pg_restore", ("--clean", "-c")),
            ("mongorestore", ("--drop",)),
            ("flask atlas airflow", ("db downgrade", "schema clean", "db reset")),
            ("dvc", ("gc", "destroy")),
            ("swift mysqladmin", ("delete", "drop")),
            ("kubectl oc", ("replace --force", "replace --raw", "apply --prune", *_SCALED_TO_NONE)),
            ("aws", ("schedule-key-deletion", "release-address", "close-account")),
            ("gcloud", ("restore-backup", "--delete-unmatched-destination-objects")),
            ("gsutil", ("rsync -d", "rsync -rd", "rsync -dr")),
            ("heroku hcloud linode-cli", ("pg:backups:restore", "pg:copy", "rebuild")),
            ("s3cmd mc", ("sync --delete-removed", "mirror --remove")),
            ("azcopy", ("sync --delete-destination=true", "sync --delete-destination true")),
            ("vboxmanage", ("--delete", "--delete-all")),
            ("rclone", ("sync", "cleanup", "dedupe")),
            ("borg deck", ("recreate", "reset")),
            ("argocd flux", ("app delete", "uninstall")),
            ("kafka-consumer-groups", ("--reset-offsets --execute",)),
            ("vagrant tiup", ("snapshot restore", "cluster clean")),
            ("wal-g wal-e pgbackrest barman pg_probackup", ("backup-fetch", "restore", "recover")),
            ("xtrabackup mariabackup mariadb-backup", ("--copy-back", "--move-back")),
            ("rethinkdb", ("restore --force",)),
            ("hg", ("strip", "update --clean", "update -C", "revert --no-backup", "purge")),
            ("svn p4", ("revert", "cleanup --remove-unversioned")),
            ("wsl limactl", ("--unregister", "factory-reset")),
            ("pg_dropcluster pg_resetwal pg_archivecleanup diskpart kafka-delete-records", ("",)),
            ("nvme lvconvert bcachefs", ("format", "sanitize", "--merge")),
            ("drizzle-kit convex", ("push --force", "import --replace-all")),
            ("wp drush bench", ("db reset", "site empty", "site:install", "reinstall")),
        )
        for program in programs.split()
    }
)
# One argument that makes the program irreversible, whatever stands before it.
_LOSING_WORDS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        program: late_pattern(word)
        for programs, word in (
            ("diskutil", r"(?:erase|delete|partition|zero|random|secureErase|reformat)\w*"),
            ("tmutil dscl sysadminctl rdfind duplicity", r"-?delete\w*|--remove-\S+"),
            ("aws", r'(?s:.*"Action"\s*:\s*"DELETE".*)'),
            ("gpg gpg2", r"--delete-secret\S*"),
            ("asr timeshift", r"--?(?:erase|delete|restore)\S*"),
            ("rdiff-backup tarsnap fdupes jdupes", r"--remove-\S+|--nuke|--delete|-\w*d\w*"),
            ("zfs zpool", r"rollback|labelclear|detach"),
            ("vault certbot step", r"disable|revoke|seal"),
            ("kubeadm talosctl k0s microk8s rabbitmqctl", r"(?:force_)?reset"),
            ("nodetool", r"decommission|removenode|assassinate|clearsnapshot"),
            ("hdfs hadoop", r"-rm\w*|-expunge|-format"),
            ("fastboot", r"-w|erase|format\S*|flash\S*"),
            ("kafka-topics kafka-consumer-groups kafka-configs kafka-acls", r"--delete|--remove"),
            (
                "powershell pwsh",
                r"(?i:[-/]{1,2}e(?:c|n\w*)?"
                r"|.*\b(?:(?:clear|initialize)-disk|format-volume|clear-(?:recyclebin|eventlog)"
                r"|remove-(?:ad|az|partition|vm)\w*|(?:stop|restart)-computer)\b.*)",
            ),
            ("robocopy", r"(?i:/(?:mir|purge))"),
            ("ansible", r"(?:.*\s)?state=absent(?:\s.*)?"),
            # The commands that they are given, of the server's files.
            ("lftp smbclient", r"(?s:(?:.*[\s;])?(?:m?rm|del|deltree|mirror\s.*--delete)\s.*)"),
        )
        for program in programs.split()
    }
)
# Their losses are the first subcommand: `npm publish`, not `npm test --mode publish`.
_PUBLISHERS: Final = frozenset(
    {"npm", "pnpm", "yarn", "bun", "uv", "poetry", "hatch", "flit", "pdm", "cargo", "gem", "lerna"}
)
_RUNS_SUBCOMMAND: Final = late_pattern(
    r"run|run-script|npm|workspaces?|foreach|recursive|multi|\+[\w.-]+"
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
    *("civo", "vultr", "vultr-cli", "openstack", "b2", "cloudflared", "databricks", "fclones"),
    *("snow", "s3cmd", "s5cmd", "mc", "rclone", "azcopy", "skopeo", "crane", "oras", "vagrant"),
    *("zfs", "zpool", "btrfs", "virsh", "multipass", "limactl", "colima", "lxc", "incus", "qm"),
    *("restic", "borg", "duplicity", "kopia", "vault", "etcdctl", "consul", "nomad", "influx"),
    *("rabbitmqctl", "rabbitmqadmin", "nats", "pulsar-admin", "op", "bw", "pass", "gopass"),
    *("turso", "neonctl", "planetscale", "pscale", "mongocli", "atlas", "stripe", "okteto"),
    *("huggingface-cli", "hf", "mlflow", "ngrok", "tailscale", "security", "schema", "bq", "sst"),
    *("jf", "jfrog", "juju", "ceph", "rbd", "rados", "radosgw-admin", "couchbase-cli", "tiup"),
}
# They delete what is of this machine alone and made again, such as a list of processes.
_LOCAL: Final = frozenset(
    {"coverage", "pm2", "rush", "xcrun", "avdmanager", "zellij", "ip", "tc", "nmcli", "gt", "stg"}
    | {"rails"}
)
# The verbs of programs that are in no table: those that leave no doubt.
_SURE_LOSS: Final = late_pattern(
    r"(?:\w+:)?(?:delete|destroy|purge|drop|wipe|nuke|obliterate|erase|terminate|expunge"
    r"|decommission|unregister)(?:[_:]\w+)?"
)
_TRY: Final = frozenset({"--help", "-h", "--dry-run"})
_PROGRAM: Final = late_pattern(r"[a-z][\w.+-]*")
_NO_SUBCOMMAND: Final = late_pattern(r".*[/\s=,;].*|\W+|.*\.\w+", re.DOTALL)
_DELETES: Final = (
    r"delete|destroy|terminate|purge|deprovision|wipe|rm|rb|down|remove|drop|deregister|erase|nuke"
    r"|obliterate|undefine|undeploy|uninstall|del|forget|prune|flush|drain"
)
_CLOUD_LOSS: Final = late_pattern(rf"(?:--|[\w-]+:)?(?:{_DELETES})(?:-[\w-]+)?")
_MANAGER_LOSS: Final = late_pattern(
    rf"(?:[\w-]+[:-])?(?:{_DELETES})(?:file|dir|dirs|s)?(?:[-_:][\w-]+)?|--?(?:delete|purge)"
    r"|(?:Delete|Terminate|Remove|Destroy)[A-Z]\w*"
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
            ("gh", "-h|--draft"),
            ("kubectl oc helm", "--dry-run(?:=(?:client|server))?"),
            ("aws", "--dry-?run"),
            ("rclone restic borg s3cmd", "-n|--dry-run"),
            ("manage.py django-admin", "--plan"),
            ("goreleaser", "--snapshot|--version"),
            ("glab docker podman terraform tofu gcloud az", "-h"),
        )
        for program in programs.split()
    }
)
_INTERPRETER: Final = late_pattern(r"python[\d.]*|pypy\d*")
_TAKES_TRY_BACK: Final = late_pattern(
    r"--no-(?:n|dry?(?:-\w*|run)?)|--(?:dry-?run|draft)[= ](?:false|f|no|none|0)", re.IGNORECASE
)
# Before an option with which a program only tries: it takes no value, which that one would be.
_NO_VALUE: Final = late_pattern(
    r"-[a-zA-Z]?[vqfyr]|--(?:no|skip|allow|all|ignore|force|yes|quiet|verbose|workspace|recursive"
    r"|locked|frozen|offline|provenance|json|public|exclude-unpublished)(?:-[\w-]+)?"
)
# Npm ignores an option that a subcommand does not know.
_DEAF: Final = frozenset({"deprecate", "owner", "dist-tag"})
# What docker prunes there is made again.
_CACHES: Final = frozenset({"builder prune", "buildx prune", "network prune"})
_PUBLISHES_NOT: Final = frozenset({"build", "check", "healthcheck", "init", "completion", "man"})
_ALL_PROCESSES: Final = late_pattern(r"-(?:\w*[uU]|-user|-uid|-euid)(?:=.*|\d+)?|\.?[*+]?|\^")


def lost_by_subcommand(name: str, words: Sequence[str]) -> str | None:
    """Return why the program *name* with the arguments *words* cannot be undone, or None."""
    name = name.removesuffix(".sh").removesuffix(".exe")
    if _INTERPRETER.fullmatch(name) and words and words[0].endswith(".py"):
        return lost_by_subcommand(words[0].rpartition("/")[2], words[1:])
    if _only_tries(name, words) or " ".join(words[:2]) in _CACHES:
        return None
    if name == "goreleaser" and words and words[0] in _PUBLISHES_NOT:
        return None
    for loss in _LOSSES.get(name, ()):
        if in_order(loss, words) and (name not in _PUBLISHERS or _is_first(loss[0], words)):
            return f"{_listed_act(name, words) or ' '.join((name, *loss))}, which cannot be undone"
    losing = _LOSING_WORDS.get(name)
    if losing and (word := next(filter(losing.fullmatch, words), None)):
        return f"{name} {word}, which cannot be undone"
    if name in _CLOUDS and (verb := next(filter(_CLOUD_LOSS.fullmatch, _verbs(words)), None)):
        return f"{name} {verb}, which cannot be undone"
    if name in _MANAGERS and (verb := next(_deleting(name, words), None)):
        does = _listed_act(name, words)
        lost = does if does.startswith("delete") else f"{name} {verb}"
        return f"{lost}, which cannot be undone"
    task = lost_by_task(words[:_SUBCOMMANDS_MAX])
    lost = task if task and name != "git" and not _reads(name, words) else ""
    if lost := lost or lost_by_statement(name, words):
        return lost
    if name == "kill" and "-1" in words[1:]:
        return "ends every process of the user"
    if name in ("pkill", "killall", "skill") and any(map(_ALL_PROCESSES.fullmatch, words)):
        return "ends every process of a user"
    if name == "journalctl" and any(word.startswith("--vacuum") for word in words):
        return "deletes logs, which cannot be undone"
    return None


def _is_first(loss: str, words: Sequence[str]) -> bool:
    """Return whether *loss* is the first of *words* that is a subcommand, and no option's value."""
    for before, word in pairwise(("", *words)):
        if word == loss:
            return True
        is_value = before.startswith("-") or before == "workspace"
        if not (is_value or word.startswith("-") or _RUNS_SUBCOMMAND.fullmatch(word)):
            return False
    return False


def lost_by_unknown_program(name: str, arguments: Reading) -> str:
    """Return why a program of no table loses something, as its subcommand says, or ""."""
    is_program = _PROGRAM.fullmatch(name) and not _RUNS_SUBCOMMAND.fullmatch(name)
    if not is_program or name in _LOCAL or is_known(name) or not _TRY.isdisjoint(arguments):
        return ""
    words = (word for word in _verbs([word or "?" for word in arguments]) if word[:1] != "-")
    for word in islice(words, 3):
        if _SURE_LOSS.fullmatch(word):
            return f"{name} {word}, which cannot be undone"
        is_noun = word in ("node", "service")
        if word in _READS or _NO_SUBCOMMAND.fullmatch(word) or (not is_noun and is_known(word)):
            return ""
    return ""


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
        tries.fullmatch(word) and (not before.startswith("-") or _NO_VALUE.fullmatch(before))
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
    """Yield each of *words* that may be a subcommand, not a text or the name of a thing."""
    for before, word in pairwise(("", *words)):
        is_prose = before.startswith("--") and OPTION_OF_PROSE.fullmatch(before)  # no `gsutil -m`
        if is_prose or _OPTION_OF_NAME.fullmatch(before):
            continue
        # A mark alone is of data, such as JSON.
        if (_TAKES_NAMES.fullmatch(word) and not before.startswith("-")) or word in ":,[]{}":
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


def in_order(expected: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the *expected* words are among *words*, in this order."""
    rest = iter(words)
    return all(word in rest for word in expected)
