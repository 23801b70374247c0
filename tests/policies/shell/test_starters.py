"""Commands behind programs that run them: the wrappers, options and languages that are known."""

import shlex
import time
from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, command_rule, judge
from tests.tables import each_row

# {words} are a command's words, {text} the same in one quoted word, {inside} in another's quotes.
RUN_IT = (
    *("env -S{text}", "env --split-string={text}", "env -iS {text}", "env -vS{text}"),
    *("script -qc {text} /dev/null", "script -qec{text} out", "newgrp group -c {text}"),
    *("start-stop-daemon --start --exec /bin/sh -- -c {text}", "linux32 {words}", "run0 {words}"),
    *(
        "ssh -o ProxyCommand={text} host",
        "scp -o ProxyCommand={text} a b:",
        "vagrant ssh -c {text}",
    ),
    *("systemd-run -p ExecStartPre={text} true", "expect -c 'spawn {inside}'", "gosu x {words}"),
    *("git -c alias.x='!{inside}' x", "git -c core.pager={text} log", "git rebase -x {text} main"),
    *("git config alias.x '!{inside}'", "git bisect run {words}", "git submodule foreach {text}"),
    *("git grep -O{text} x", "git ls-remote --upload-pack={text} x", "GIT_PAGER={text} git log"),
    *("tar xf a --to-command {text}", "tar cf a --checkpoint-action=exec={text} b", "pee {text}"),
    *(
        "rsync -ae {text} a h:b",
        "make --eval='all:; {inside}'",
        "make CC={text}",
        "nc -e {text} h 1",
    ),
    *("npm exec -c {text}", "npm exec -- {words}", "yarn dlx {words}", "bundle exec {words}"),
    *("conda run -n x {words}", "cmake -E env {words}", "mise x -- {words}", "npx -c {text}"),
    *("rg --pre {text} x", "split --filter={text} f", "sort --compress-program={text} f"),
    *(
        "go test -exec {text} ./...",
        "fzf --preview {text}",
        "tmux new -d {text}",
        "hyperfine {text}",
    ),
    *("vim -es -c ':!{inside}' -c q", "less '+!{inside}' f", "sqlite3 x '.system {inside}'"),
    *(
        "tar xf a --to-com={text}",
        "tar cf a --checkpoint-action exec={text} b",
        "split --filt={text}",
    ),
    *("tar cf a --checkpoint-a=exec={text} b", "tar cf a --use-comp {text} b"),
    *("sort --compress-prog={text} f", "git ls-remote --upload-pa={text} x"),
    *("sort --co={text} f", "git clone --u={text} x", "split --f={text} f"),
    *("git clone --config=core.sshCommand={text} x", "MANPAGER={text} man ls"),
    *(
        *("sed '1e {inside}' f", "sed -e '1e{inside}' f"),
        "gsed -ne '/a\\/b/,$!e {inside}' f",
        "sed --expression='p;e {inside}' f",
    ),
    *("sed '\\,x,e {inside}' f", "sed '\\%a,b%I,$e{inside}' f", "sed -n 's,x,{inside},gep' f"),
    *("man --pager={text} ls", "java -XX:OnError={text} X", "npm --script-shell={text} run x"),
    *("vim -es -c 'call system(\"{inside}\")'", "vi -c 'r!{inside}' f", "vim +'sil !{inside}' f"),
    *("sqlite3 a '.once |{inside}'", "psql -c \"copy x from program '{inside}'\""),
    *("git -c protocol.ext.allow=always clone 'ext::{inside}' x", "RSYNC_RSH={text} rsync f h:"),
    *("GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!{inside}' git x", "CC={text} make"),
    *("docker-compose exec db {words}", "nerdctl run x {words}", "ip netns exec x {words}"),
    *("psql -c '\\! {inside}'", "gdb -ex 'shell {inside}'", "watchexec -e py {words}"),
    *("apt-get -o Dpkg::Pre-Invoke::={text} install x", "dpkg -i x --pre-invoke={text}"),
)
# Code of other languages, and programs that are not known.
MAY_RUN_IT = (
    *("python3 -c 'import os; os.system(\"{inside}\")'", "perl -e 'exec \"{inside}\"'"),
    *("awk 'BEGIN{{system(\"{inside}\")}}'", "sed 's/.*/{inside}/e' f"),
    *("R -e 'system(\"{inside}\")'", "guile -c '(system \"{inside}\")'"),
    *('deno eval \'new Deno.Command("sh", {{args: ["-c", "{inside}"]}})\'', "mywrapper {words}"),
    *(
        "emacs --batch --eval '(shell-command \"{inside}\")'",
        "mywrapper --then {text}",
        "$x {words}",
    ),
    *("python3 - <<'E'\nimport os; os.system('{inside}')\nE", "echo {text} | batch"),
    *("printf 'all:\\n\\t{inside}\\n' | make -f -", "mywrapper -v -- {words}"),
    *("mywrapper --message=x {text}", "mywrapper --title=x {words}"),
    *(
        "perl -e 'system @ARGV' {words}",
        "python3 -c 'import os, sys; os.system(sys.argv[1])' {text}",
    ),
    *("awk -v c={text} 'BEGIN{{system(c)}}'", "awk '{{print | \"{inside}\"}}' f"),
    *("perl -e 'qx({inside})'", "ruby -e '%x[{inside}]'", "perl -e 'open F, \"{inside} |\"'"),
    *("echo {text} | sed e", "sed -n '$e' <<< {text}", "echo {text} | sed 's/^x//e'"),
)
# Programs that are no shell, and run commands which stand in what they read.
FED = (
    *("ed f <<'E'\n1,2w !{inside}\nq\nE", "ed -s f <<< '!{inside}'", "printf '!{inside}\n' | ex f"),
    *(
        "tclsh <<E\nexec \\\n{inside}\nE",
        "expect <<< 'spawn {inside}'",
        "m4 <<< 'syscmd(`{inside}`)'",
    ),
    "parallel <<< '{inside}'",
    *("crontab - <<< '*/5 * * * * {inside}'", "(crontab -l; echo '@daily {inside}') | crontab -"),
    *("x='0 5 * * 1 cd a && {inside}'; crontab <<< $x", "gdb a <<< 'shell {inside}'"),
    *(
        "psql <<'E'\n\\! {inside}\nE",
        "sqlite3 a <<< '.shell {inside}'",
        "timeout 9 dc <<< '!{inside}'",
    ),
    *("printf 'import os; os.system(\"{inside}\")' | python3 -", "ipython <<< '!{inside}'"),
    *("echo 'import os; os.system(\"{inside}\")' | python3 -I", "irb <<< 'system(\"{inside}\")'"),
    *(
        "python3 - a b <<'E'\nimport os; os.system('{inside}')\nE",
        "perl /dev/stdin <<< '`{inside}`'",
    ),
    *('x=\'require("child_process").exec("{inside}")\'; node <<< "$x"',),
)

# What other languages delete as `rm -rf` does.
DELETED_BY_CODE = (
    "python3 -c 'import shutil; shutil.rmtree(\"/\")'",
    "python3 -c 'import shutil,os; shutil.rmtree(os.path.expanduser(\"~/docs\"))'",
    "python3 -c 'from shutil import rmtree; from pathlib import Path; rmtree(Path.home())'",
    "python3 - <<'E'\nimport shutil\nfor d in ['/home/me', '/srv']:\n    shutil.rmtree(d)\nE",
    'node -e \'require("fs").rmSync("/", {recursive: true})\'',
    'ruby -e \'require "fileutils"; FileUtils.rm_rf "/"\'',
    "perl -e 'use File::Path; rmtree(\"/home/me\")'",
    "perl -MFile::Path=remove_tree -e 'remove_tree $ENV{HOME}'",
    "node -e 'fs.promises.rm(os.homedir(), {recursive: true, force: true})'",
    "python3 -c \"import shutil as s; s.rmtree('../..', ignore_errors=True)\"",
    "printf 'import shutil\\nshutil.rmtree(\"/etc\")' | python3 -",
    'bun -e \'import {rmdirSync} from "fs"; rmdirSync("/home/me", {recursive: true})\'',
    # Shells of Windows, which bash starts in its subsystem for Linux.
    *("pwsh -c 'Remove-Item -Recurse -Force C:/x'", "pwsh -NoProfile -Command 'ri -r -fo ~'"),
    *("pwsh -c 'gci -r | % { del $_ }'", "pwsh -c 'gci | Remove-Item'", "pwsh -c 'rm -r *'"),
    *("powershell.exe Remove-Item -Recurse 'C:\\x'", "cmd.exe /c del *.*"),
    *("powershell.exe -c '[IO.Directory]::Delete(\"C:\\x\", $true)'", "pwsh -enc AAAA"),
    *("pwsh -en AAAA", "powershell /EncodedCommand AAAA"),
    *("cmd.exe /c 'rd /s /q C:\\x'", "cmd.exe /C 'cd x & rd /s /q \\'", "cmd.exe /c format d:"),
    "echo 'Remove-Item -Recurse C:/x' | pwsh",
)


def filled(form: str, command: str) -> str:
    return form.format(words=command, text=shlex.quote(command), inside=command)


def verdict_on(script: str, *, deny: str = "") -> str:
    rules = CommandRules(deny=[command_rule(deny)] if deny else [])
    return judge(script, rules, Reach(root=Path("/nowhere"))).verdict


@each_row("script", DELETED_BY_CODE)
def test_code_that_deletes_folders_outside_asks_like_rm(script: str) -> None:
    """Threat 19: in every mode."""
    assert verdict_on(script) == "ask"


@each_row(
    "script",
    [
        "python3 -c 'import shutil; shutil.rmtree(\"build\")'",
        'python3 -c \'import shutil; shutil.rmtree("build"); print(open("/etc/hosts").read())\'',
        "node -e 'fs.rmSync(\"node_modules\", {recursive: true})'",
        "ruby -e 'FileUtils.rm_rf(\"tmp/cache\")'",
        "python3 -c 'print(\"rmtree(/)\")'",
        "python3 -c 'import os; print(os.path.expanduser(\"~\"))'",
        "python3 -c 'import tempfile, shutil; d = tempfile.mkdtemp(); shutil.rmtree(d)'",
        *("pwsh -c 'Remove-Item ./build -Recurse -Confirm:$false'", "cmd.exe /c rd /s /q build"),
        *("pwsh -c 'Invoke-Pester; Get-ChildItem'", "powershell.exe -c 'Get-Process'"),
        *("pwsh -NoProfile -File build.ps1 -Clean", "cmd.exe /c 'dir /s > x.txt'"),
    ],
)
def test_code_that_deletes_inside_asks_no_more_than_rm(script: str) -> None:
    assert verdict_on(script) == "undecided"


@each_row("form", [*RUN_IT, *MAY_RUN_IT, *FED])
def test_irreversible_command_asks_behind_each_program_that_may_run_it(form: str) -> None:
    """Threat 19: in every mode."""
    assert verdict_on(filled(form, "rm -rf ~")) == "ask"
    assert verdict_on(filled(form, "git reset --hard")) == "ask"


@each_row("form", RUN_IT)
def test_deny_rule_finds_its_command_behind_each_program_that_runs_it(form: str) -> None:
    assert verdict_on(filled(form, "curl x"), deny="curl *") == "deny"


@each_row("script", ["env -S'rm -rf' ~", "env -iS 'rm -rf' ~", "watch 'rm -rf' ~"])
def test_words_behind_a_split_text_belong_to_its_command(script: str) -> None:
    assert verdict_on(script) == "ask"


@each_row(
    "script",
    [
        *("npm test -- -t 'curl fails'", "pytest -k 'curl or rm'", "git log --grep='curl x'"),
        *("git commit -m '!curl x'", "git ls-files ':!curl'", "awk '!curl[$0]++' f", "at -l"),
        *("./deploy.sh --message 'git push -f'", "mytool --note 'rm -rf / is bad'", "adb reboot"),
        *("mytool --note='rm -rf / is bad'", "mytool -m 'rm -rf / is bad' x"),
        *("python3 -c 'print(\"rm -rf /\")'", "gh pr create --body 'git reset --hard'"),
        *("rg --pre-glob '*.pdf' curl", "git -c user.name=curl log", "make MSG='no curl x'"),
        *(
            "sed 's/a/curl x/g;s/e/the/' f",
            "sed 's/e curl x/b/' f",
            "sed -n '/e curl x/p' f",
            "sed 's/a/;ecurl x/' f",
        ),
        *("sed -i 's/git reset --hard/git stash/' a.sh", "./manage.py shutdown", "git clean -xn"),
        *("echo '!rm -rf ~'", "cat <<'E' > a.sh\nrm -rf ~\nE"),
        *("ed f <<< 'a\nnever git reset --hard\n.\nw'", "crontab -l | grep 'git push -f'", "m4 f"),
        *(
            "crontab - <<'E'\n# 0 5 * * * rm -rf ~ /\n0 5 * * 1 make\nE",
            "bc <<< '2*3!'",
            "ed f <<< 'q!'",
        ),
        *(
            "python3 --version && echo 'system(\"git reset --hard\")'",
            "python3 - x <<< 'print(\"rm -rf ~\")'",
        ),
        "echo 'system(\"git reset --hard\")' | python3 -c 'import sys; print(sys.stdin.read())'",
        *("git bisect log", "npm run curl", "bundle install curl", "tar czf curl src"),
    ],
)
def test_text_that_no_program_runs_is_left_alone(script: str) -> None:
    """Users soon remove a rule that blocks too much."""
    assert verdict_on(script, deny="curl *") not in ("ask", "deny")


@each_row(
    "script",
    [
        "nice " + "a -b " * 499,
        "env " + "x=1 " * 900 + "a -b",
        "find . " + "-name x -o " * 300 + "-print",
        "mywrapper " + "a -b " * 499,
    ],
)
def test_long_command_behind_a_starter_is_read_in_a_moment(script: str) -> None:
    """Each word may be the program, but no word is read from twice: it took 17 s of CPU."""
    before = time.process_time()

    verdict_on(script, deny="git push *")

    assert time.process_time() - before < 3
