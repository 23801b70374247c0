"""Words that a script stands for: values that it hands to a shell, or keeps in a function."""

from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row


def asks(script: str) -> bool:
    """Return whether *script* asks in every mode."""
    return judge(script, CommandRules(), Reach(root=Path("/nowhere"))).verdict == "ask"


@each_row(
    "script",
    [
        "sh -c \"rm -rf '$PWD/build'\"",
        'B=build; bash -c "rm -rf \\"$B\\""',
        "bash -c 'B=build; rm -rf \"$B\"'",
        "bash -lc 'cd src && T=$(mktemp -d) && rm -rf \"$T\"'",
        'B="a b"; bash -ec "rm -rf \'$B\'"',
        "bash -c \"sh -c 'B=build; rm -rf \\$B'\"",
        'B=build; eval "rm -rf $B"',
        "B=build; eval \"rm -rf '$B'\" 2>/dev/null || true",
        "B=build; eval 'rm -rf \"$B\"'",
        'T=$(mktemp -d); trap \'rm -rf "$T"\' EXIT; cd "$T"',
        'T=$(mktemp -d); cd "$T"; rm -rf build',
        'T=$(mktemp -d) && cd "$T" && rm -rf build',
        'declare -a d=(build x); rm -rf "${d[@]}"',
        'f() { local b=build; rm -rf "$b/x"; }; f',
        'f() { local b; b=build; rm -rf "$b/x"; }; f',
        'f() { local d; d=$(mktemp -d) || return; rm -rf "$d"; }; f',
        "typeset -r b=build; rm -rf $b",
        "b=build; export b; rm -rf $b/x",
        "mkdir -p build && cd build && rm -rf * && cmake ..",
        'D=dist; rm -rf "$D"; find . -name x -delete',
        'D=dist; rm -rf "$D"; docker build -t x . && bundle exec rake read',
        'D=dist; rm -rf "$D"; find src -name x -exec ls {} +',
        "rm -rf .verify*",
        "printf 'B = a\\nx:\\n\\trm -rf $(B)\\n\\tfind . -name y -delete\\n' > Makefile; make x",
    ],
)
def test_deleting_what_a_value_of_the_script_names_asks_not(script: str) -> None:
    """Also where a shell, `eval` or a trap gets the value, or a function keeps it."""
    assert not asks(script)


@each_row(
    "script",
    [
        *(f'B=x; {each}; rm -rf "$B"' for each in ("time read B", "! . ./a", "X=1 source a")),
        *(
            f'B=x; {each}; rm -rf "$B"'
            for each in ("< a read B", "if . a; then :; fi", "repeat 1 . a")
        ),
        *(f"rm -rf {each}" for each in (".g*", ".?*", ".[!x]*", ".*")),
        "B=/; eval \"rm -rf '$B'\"",
        "B=build; B=/ eval 'rm -rf $B'",
        "B='$HOME'; eval \"rm -rf $B\"",
        "B='{x,/etc}'; eval \"rm -rf $B\"",
        'B=T=/; T=build; eval "$B"; rm -rf $T',
        'B=T=/; T=build; eval "$B; rm -rf $T"',
        "B=$'x\\nrm -rf ~'; T=x; eval \"rm -rf $T # $B\"",
        "y='; rm -rf ~'; T=x; trap \"rm -rf $T; echo $y\" EXIT",
        "y='; rm -rf ~'; T=x; trap \"rm -rf $T; x=$y\" EXIT",
        "b=x; b=/ trap 'rm -rf $b' EXIT",
        "bash -lc 'cd src && rm -rf \"$T\"'",
        'B="it\'s"; bash -c "rm -rf $B"',
        "B='x; rm -rf ~'; bash -c \"rm -rf $B\"",
        'B=build; bash -c "cd src && rm -rf \\"$B\\" \\$X"',
        'B=; [ -f c ] && B=src; bash -c "rm -rf $B/x"',
        'B=build; bash -c "B=/; rm -rf \\$B"',
        "B=build; B=/ bash -c 'rm -rf \"$B\"'",
        "T=$(mktemp -d); cd $T; rm -rf build",
        'b=x; f() { local b; rm -rf "$b/etc"; }; f',
        'f() { local b; if a; then b=x; fi; rm -rf "$b/etc"; }; f',
        'b=x; f() { local b; g; }; g() { rm -rf "$b/etc"; }; f',
        'b=x; f() { local b=$1; rm -rf "$b"; }; f /',
        'f() { local b=x; }; f; rm -rf "$b/etc"',
        "b=x; f() { declare -g b=/; }; f; rm -rf $b",
        'declare -n r=b; b=x; r=/; rm -rf "$b"',
        'declare -l b=X; rm -rf "$b"',
        'declare -A b=([x]=/); rm -rf "${b[@]}"',
        'declare "b=/"; b=x; rm -rf $b',
        "b=x; n=b; declare $n=/; rm -rf $b",
        "b=x; X=1 export b=/; rm -rf $b",
        "b=x; time export b=/; rm -rf $b",
        "cd build; rm -rf *",
        "cd build && cd .. && rm -rf *",
        "cd src/.git && rm -rf *",
        "cd build && rm -rf * .*",
        "b=x; ! readonly b=/; rm -rf $b",
        "f() { local b=x; trap 'rm -rf \"$b\"/etc' EXIT; }; f",
        "b=x; f() { declare b; exit; }; trap 'rm -rf \"$b\"/etc' EXIT; f",
        'b=x; rm -rf $b; eval "echo \\"it\'s\\"; rm -rf ~; echo \\"it\'s\\""',
        "cd build && cd && rm *",
        "cd build && cd -P && rm *",
        "cd build && cd -- && rm *",
    ],
)
def test_deleting_what_another_value_may_name_asks(script: str) -> None:
    """Threat 19: a value may be a script, come from elsewhere, or be none at all."""
    assert asks(script)
