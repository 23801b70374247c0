"""Find statements and requests that delete data: in databases, and on servers of HTTP.

And files that programs take away that do more than to delete. Patterns of text and no proof.
`losses` knows the subcommands of programs.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.deleted_folders import sources_and_target
from agent_cli.policies.shell.readings import Reading
from agent_cli.sandbox.path_sets import TEMPORARY
from agent_cli.system.loading import late_pattern

_DATABASES: Final = frozenset(
    {
        *("psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "cqlsh", "duckdb", "mongosh", "mongo"),
        *("redis-cli", "valkey-cli", "clickhouse-client", "bq", "pgcli", "mycli", "litecli"),
        *("usql", "cockroach", "sqlplus", "isql", "snowsql", "trino", "spark-sql", "beeline"),
        *("influx", "clickhouse", "keydb-cli", "sqlite", "surreal", "turso", "wrangler", "iredis"),
        *("mysqlsh", "cypher-shell", "arangosh", "impala-shell"),
    }
)
# Only at the characters that one begins with are they tried: several times as fast in a long text.
DATA_LOSS: Final = late_pattern(
    r"(?=[drpautf.])(?:"
    r"\bdrop\s+(?:table|database|schema|view|index|collection|user|role|column|keyspace|owned"
    r"|materialized|sequence|function|type|extension|tablespace|trigger|measurement|graph"
    r"|constraint|primary|foreign|partition|procedure|policy|publication|subscription|shard)\b"
    r"|\bremove\s+(?:table|database|namespace|field)\b|\bdetach\s+(?:delete|table|partition)\b"
    r"|\breset\s+master\b|\bpurge\s+(?:binary|master)\s+logs\b|\balter\s+table\s[^;]{1,200}\sdelete\s"
    r"|\bupdate\s+(?:only\s+)?[\w.\"`\[\]]+\s+set\s(?![^;]*\bwhere\b)"
    r"|\btruncate\b(?!\s*\()|\bdelete\s+(?>(?:(?:low_priority|quick|ignore)\s+)*)"
    r"(?:[\w$`]+(?>(?:\.[\w$`*]+)*)(?>(?:\s*,\s*[\w$`]+(?>(?:\.[\w$`*]+)*))*)\s+)?from\b"
    r"|\bflush(?:all|db)\b|dropDatabase"
    r"|\._?(?:drop|remove)\s*\(|delete(?:Many|One)|findOneAndDelete|redis\.call\(.(?:del|unlink|flush))",
    re.IGNORECASE,
)
# Of SQL; one that is never closed reaches to the end. What MySQL executes of them is not here.
_COMMENT: Final = late_pattern(r"/\*(?!!)(?:.*?\*/|.*)|(?:--|#)[^\n]*", re.DOTALL)
# In a line that a program prints for redis, or gives it as its input.
_KEYS_LOST: Final = late_pattern(
    r"(?:^|['\"])[ \t]*(?:unlink|(?:get|h|x)?del)\s", re.IGNORECASE | re.MULTILINE
)
_REDIS: Final = frozenset({"redis-cli", "valkey-cli", "keydb-cli", "iredis"})
# In code that a framework's console runs.
_CONSOLES: Final = frozenset(
    {"rails", "gitlab-rails", "manage.py", "django-admin", "artisan", "iex"}
)
_RECORDS_LOST: Final = late_pattern(
    r"[.:](?:delete_all|destroy_all|truncate)\b|objects\.(?:all\(\)|filter\([^)]*\))\.delete\("
)
# Tasks of a project that empty its database: `rails db:drop`, `artisan migrate:fresh`.
_DATABASE_TASK: Final = late_pattern(
    r"(?:[\w-]+:)*(?:db|database|migrat(?:e|ions?)|ecto|ash|schema|doctrine|pg)[:.](?:\w+[:.])*"
    r"(?:drop|reset|purge|fresh|refresh|wipe|truncate(?:_all)?|nuke|rollback|revert|undo|down|redo"
    r"|setup|replant|(?:schema|structure|fixtures):load)(?!(?::\w+)*:test)(?::[\w:]+)?"
    r"|queue:(?:clear|flush)|sql[:-]drop|(?:\w+:)?backup:restore"
)
_MIGRATES_BACK: Final = (
    r"(?:downgrade|down|rollback|revert|undo|reset|drop|refresh|fresh|backwards|redo)"
    r"(?:[-_A-Z]\w*)?"
)
# One argument that has the program delete data, whatever stands before it.
_LOSING_WORDS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        program: late_pattern(word)
        for programs, word in (
            (
                "alembic goose dbmate diesel sqlx migrate aerich yoyo phinx sea-orm-cli piccolo"
                " tern sqitch flyway liquibase drizzle-kit hasura migrate-mongo db-migrate"
                " node-pg-migrate migratus schemachange",
                _MIGRATES_BACK,
            ),
            (
                "redis-cli valkey-cli keydb-cli iredis",
                r"(?i:(?:get|h|x)?del|unlink|[sz]rem\w*|[lhz]rem\w*|[lx]trim|[lrsz]pop\w*|nosave)",
            ),
        )
        for program in programs.split()
    }
)
DELETES_DATA: Final = "deletes from a database, which cannot be undone"
_CLIENTS: Final = frozenset({"curl", "wget", "gh", "glab", "http", "https", "xh"})
# Of Elasticsearch, Prometheus, Qdrant, Meilisearch, Jenkins and Solr, without DELETE.
_PATH_DELETES: Final = late_pattern(
    r"[^\s]*/(?:_delete_by_query|delete_series|points/delete|documents/delete(?:-batch)?|doDelete)"
    r"(?:[?/].*)?|\S*deleteInstanceDir=true.*"
    r"|<delete>.*",
    re.DOTALL,
)
# No port of a database.
_HERE: Final = late_pattern(
    r"(?:https?://)?(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0)"
    r"(?!:(?:2379|5984|6333|7474|7700|8086|8108|8123|8200|8500|8529|8983|9090|920\d|15672|19530)\b)"
    r"(?::\d+)?(?:[/?].*)?",
    re.DOTALL,
)
_LEADS_AWAY: Final = late_pattern(
    r"-[a-zA-Z]*[xKL].*|--(?:proxy|config|connect-to|resolve|location|preproxy|socks).*", re.DOTALL
)
_GRAPHQL_LOSS: Final = late_pattern(
    r"(?<!un)(?:delete[A-Z]\w*|archiveRepository|transferIssue)\s*\("
)
_MOVES_TO_ARCHIVE: Final = MappingProxyType(
    {"zip": late_pattern(r"-[a-zA-Z0-9]*m[a-zA-Z0-9]*|--move")}
    | dict.fromkeys(("tar", "gtar", "bsdtar"), late_pattern(r"--remove-f\w*"))
    | dict.fromkeys(("7z", "7za", "7zz"), late_pattern(r"-sdel"))
)
_REPLACES: Final = frozenset({"mv", "cp", "ln", "install"})
_KEEPS_NOTHING: Final = late_pattern(rf"(?:/dev/null|{'|'.join(TEMPORARY)})/")
# A file of a person: what is there for a time may be moved to another such place.
_IS_KEPT: Final = late_pattern(rf"~|(?!(?:{'|'.join(TEMPORARY)})/)/")
_CHOOSES_OF_ARCHIVE: Final = frozenset({"-x", "-i", "--exclude", "--include"})


def lost_by_statement(name: str, words: Sequence[str]) -> str:
    """Return why the program *name* with the arguments *words* deletes data, or ""."""
    losing = _LOSING_WORDS.get(name)
    if losing and (word := next(filter(losing.fullmatch, words), None)):
        return f"{name} {word}, which cannot be undone"
    if name in _DATABASES and any(map(has_data_loss, words)):
        return DELETES_DATA
    if name in _CONSOLES and any(map(_RECORDS_LOST.search, words)):
        return DELETES_DATA
    return ""


def lost_by_task(words: Sequence[str]) -> str:
    """Return why a task of a project among *words* empties its database, or ""."""
    task = next(filter(_DATABASE_TASK.fullmatch, words), None)
    return f"{task} takes data out of a database, which cannot be undone" if task else ""


def lost_by_request(name: str, arguments: Reading) -> str:
    """Return why the client *name* with *arguments* asks a server to delete something, or ""."""
    words = [word for word in arguments if word is not None]
    if _asks_to_delete(name, arguments) or (name in _CLIENTS and any(map(_mutates, words))):
        return f"{name} asks a server to delete something, which cannot be undone"
    return ""


def _asks_to_delete(name: str, arguments: Reading) -> bool:
    """Return whether *arguments* of a client of HTTP are a request that deletes something.

    What a server of this machine deletes under development is made again; a database's is not.
    """
    words = [word for word in arguments if word is not None]
    if name in ("http", "https", "xh"):
        deletes = "DELETE" in words
    elif name in _CLIENTS:
        method = r"(?:-[a-zA-Z]*X|--request|--method)[ =]?DELETE(?: |$)"
        deletes = bool(re.search(method, " ".join(words)))
    else:
        return False
    if any(map(_PATH_DELETES.fullmatch, words)):
        return True
    return deletes and not (len(words) == len(arguments) and _stays_here(words))


def _stays_here(words: Sequence[str]) -> bool:
    """Return whether the request of *words* goes to no server but one of this machine's own."""
    targets = [word for word in words if "://" in word or _HERE.fullmatch(word)]
    return (
        bool(targets)
        and all(map(_HERE.fullmatch, targets))
        and not any(map(_LEADS_AWAY.fullmatch, words))
    )


def _mutates(query: str) -> bool:
    """Return whether *query*, of GraphQL, deletes something."""
    return "mutation" in query and _GRAPHQL_LOSS.search(query) is not None


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


def taken_away(name: str, words: Reading) -> Reading:
    """Return what `zip -m` and its like move to an archive, and `mv` to where nothing is kept."""
    sources, target = sources_and_target(words) if name == "mv" else ((), None)
    if target and _KEEPS_NOTHING.match(f"{target}/"):
        return tuple(x for x in sources if target == "/dev/null" or _IS_KEPT.match(x or ""))
    moves = _MOVES_TO_ARCHIVE.get(name)
    if not moves or not any(map(moves.fullmatch, filter(None, words))):
        return ()
    named = takewhile(lambda word: word not in _CHOOSES_OF_ARCHIVE, words)
    return tuple(each for each in named if each is None or not each.startswith("-"))[1:]


def emptied_by(name: str, words: Reading) -> Reading:
    """Return what a copy of /dev/null, or a link to it, takes the place of."""
    if name == "dd" and "if=/dev/null" in words:
        return tuple(each[3:] for each in words if each and each.startswith("of="))
    sources, target = sources_and_target(words) if name in _REPLACES else ((), None)
    return (target,) if target and "/dev/null" in sources else ()
