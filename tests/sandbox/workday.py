"""Commands that developers and models type in a day to look around, check and count.

Written down before anything was tuned, from notes on shells, version control, build tools and logs;
`HELD_OUT` is the half by hash that nobody looks at while tuning. They run in `make_workday`.
"""

import gzip
import hashlib
import subprocess
import tarfile
import zipfile
from pathlib import Path

COMMANDS = tuple(
    line
    for line in r"""
ls ..
ls /tmp
ls -la /etc
ls -l $(which python3)
ls ~
ls -d */
ls -la --time-style=long-iso
ls **/*.py
ls -1 | wc -l
ls src tests 2>/dev/null | sort
cat /etc/os-release
cat /etc/hosts
cat /proc/cpuinfo | head -20
cat /proc/meminfo | grep -i memtotal
cat Makefile
cat $(git ls-files '*.toml')
cat src/*.py | wc -l
cat -A README.md | head -3
head -c 100 data.bin | xxd
xxd data.bin | head -5
xxd -l 64 data.bin
strings data.bin | head
strings -n 8 data.bin
hexdump -C data.bin | head -3
od -A x -t x1z data.bin | head -2
file src/*
file -i data.bin
stat -c '%s %n' *.md
stat --format=%Y README.md
readlink -f src/app.py
realpath --relative-to=. src/app.py
tree -I __pycache__
du -sh * | sort -h
du -a . | sort -n -r | head -n 10
df -h
df -h /
find . -newer README.md
find . -type f -newermt '2020-01-01'
find . -name '*.py' -printf '%s %p\n'
find . -iname '*readme*'
find . -type f -exec sha1sum {} +
find . -type f | sed 's/.*\.//' | sort | uniq -c
find . -path ./node_modules -prune -o -name '*.js' -print
find /usr/include -name 'stdio.h'
find . -empty -type f
find . -type f -size +10k -exec ls -lh {} \;
find src -name '*.py' -exec basename {} .py \;
find . -maxdepth 1 -mindepth 1 -type d -printf '%f\n'
find . -perm -u+x -type f
locate stdio.h | head -1
wc -l $(find src -name '*.py')
wc -c < data.bin
wc -w README.md docs/*.md
grep -r TODO .
grep -rn --exclude-dir=.git main .
grep -R "import os" src
grep -rIl main .
grep -nE '^(def|class) ' src/*.py
grep -c '' src/app.py
grep -oP '(?<=name = ")[^"]+' pyproject.toml
grep -rn "$(echo main)" src
grep --color=never -n def src/app.py
zgrep error old.log.gz
zcat old.log.gz | head
gzip -l old.log.gz
gzip -dc old.log.gz | wc -l
gunzip -c old.log.gz | tail -1
rg --hidden TODO
rg -uu main
rg -n --no-heading 'def \w+' src
rg -c import
rg --files | head
rg -A2 -B2 main src/app.py
rg -e main -e util src
rg --type-list | head -3
rg 'a|b' -g '!*.md'
ag TODO src
fd -e py
fd main src
fzf --version
bat --version
tar tf dist.tar.gz
tar -tzf dist.tar.gz
tar tvf dist.tar.gz | head
tar -xOf dist.tar.gz dist/a.txt
unzip -l dist.zip
unzip -p dist.zip a.txt
zipinfo dist.zip
python3 -m zipfile -l dist.zip
python3 -m tarfile -l dist.tar.gz
expr 1 + 2
echo $((3 * 7))
echo "2^10" | bc
bc <<< "scale=2; 10/3"
seq 1 5 | paste -sd+ - | bc
printf '%s\n' a b c
printf '%x\n' 255
echo {a..e}
date +%s
date -d yesterday +%F
date -d @1700000000
cal
cal 2026
uptime -p
uname -r
nproc --all
lscpu | head -5
free -m
vmstat
env | sort | head
env | grep -i path
printenv PATH
echo "$PATH" | tr ':' '\n'
locale
ulimit -a
type -a python3
which -a python3
whereis bash
command -v node || echo none
hash
alias
history | tail -5
man ls
man -k socket | head -2
info --version
help cd
ls --version | head -1
python3 -V
python3 -m json.tool package.json
python3 -c 'import sys; print(sys.version)'
python3 -c "import json; print(json.load(open('package.json'))['name'])"
python3 -c 'print(2**64)'
python3 -m site
python3 -m pip --version
python3 -m this | head -3
python3 -m timeit -n 10 'sum(range(100))'
python3 -m ast src/util.py
python3 -m tokenize src/util.py | head -5
python3 -m pydoc json | head -20
python3 -m unittest discover -s tests
python3 -m pytest --version
python3 src/app.py
python3 src/app.py --help
pip list
pip freeze
pip show pip
pip --version
pip config list
pip check
pipdeptree --version
ruff check src
ruff --version
mypy --version
black --check src
node --version
node -p '1 + 1'
node -e 'console.log(process.version)'
node -p "require('./package.json').version"
npm ls
npm ls --depth=0
npm run
npm pkg get scripts
npm config get registry
npm root
npx --version
yarn --version
tsc --version
jq '.dependencies | length' package.json
jq -r 'keys[]' package.json
jq . < package.json | head -5
yq --version
xmllint --version
go version
go env GOPATH
go list ./...
go vet ./...
gofmt -l .
cargo --version
rustc --version
cargo metadata --no-deps --format-version 1
java -version
mvn -v
ruby -e 'puts 1 + 1'
perl -e 'print "hi\n"'
perl -ne 'print if /main/' src/app.py
perl -v | head -2
php -v
gcc --version | head -1
gcc -E -x c /dev/null
cc -dM -E - < /dev/null | head -3
make -n
make -p | head -5
make help
make --dry-run test
cmake --version
git -C src status
git -C . log -3 --oneline
git status --porcelain=v2 --branch
git log --pretty=fuller -1
git log --graph --oneline --decorate -10
git log -S main --oneline
git log --author=A --since=yesterday
git log -L 1,3:src/app.py
git log --diff-filter=D --name-only
git diff HEAD~1 --stat || true
git diff --no-index README.md docs/guide.md
git diff --word-diff
git show HEAD --name-only
git show :README.md
git blame -s README.md
git ls-files --others --exclude-standard
git ls-files | xargs wc -l | tail -1
git ls-tree -r HEAD --name-only
git rev-parse --is-inside-work-tree
git rev-list --all --count
git branch -vv
git branch --contains HEAD
git tag --sort=-creatordate | head
git remote show
git stash list
git stash show -p
git config -l
git config user.email
git var GIT_EDITOR
git cat-file -p HEAD
git for-each-ref --sort=-committerdate refs/heads
git shortlog -sne --all
git grep -c def
git help -a | head -3
git bisect log
git count-objects -vH
git fsck
git check-attr -a README.md
git whatchanged -1
git cherry -v
git archive HEAD | tar t
git format-patch --stdout HEAD~1 || true
git notes list
git submodule status --recursive
diff -r src tests
diff <(ls src) <(ls tests)
diff -y README.md docs/guide.md | head
comm -12 <(sort data.csv) <(sort data.csv)
cmp README.md docs/guide.md
patch --dry-run -p1 < fix.diff
sort -t, -k2 -n data.csv
sort -u data.csv | nl
awk -F, '{s+=$2} END {print s/NR}' data.csv
awk 'BEGIN { while (i++ < 3) print i }'
awk '{ print length, $0 }' README.md | sort -n | tail -1
sed -n '5,10p;10q' src/app.py
sed --quiet '/def/=' src/app.py
sed 's/a/b/;s/c/d/' README.md | diff README.md -
cut -d: -f1 /etc/passwd | head
tr -d '\r' < README.md | md5sum
column -s, -t < data.csv
rev README.md | head -1
fold -w 20 README.md
shuf -n 1 data.csv
tac app.log | grep -m1 error
tail -n +2 data.csv
tail -f app.log & sleep 0.2; kill $!
timeout 1 tail -f app.log
split --version | head -1
base64 data.bin | head -1
echo aGk= | base64 -d
md5sum *.md
sha256sum dist.zip
cksum README.md
openssl version
openssl dgst -sha256 README.md
openssl rand -hex 8
uuidgen
echo one two | xargs echo
echo src/app.py | xargs cat
ls | xargs -n1 echo
find . -name '*.md' -print0 | xargs -0 grep -l main
pushd src && ls
pushd src >/dev/null && pwd && popd
(cd docs; ls; cat guide.md)
cd src && python3 -c 'import util; print(util.x)'
cd "$(git rev-parse --show-toplevel)" && ls
for f in src/*.py; do echo "$f: $(wc -l < "$f")"; done
for i in $(seq 3); do echo $i; done
while read -r a b; do echo "$a"; done < README.md
x=5; y=7; echo $((x + y))
name=$(basename "$PWD"); echo "$name"
if [ -x run.sh ]; then echo yes; fi
case "$(uname)" in Linux) echo l;; *) echo o;; esac
[ "$(cat README.md | wc -l)" -gt 1 ] && echo long
test -s README.md && echo full
time ls > /dev/null
bash -n run.sh
bash -c 'echo $0'
sh run.sh
./run.sh
shellcheck --version
ps aux --sort=-%mem | head -5
ps -ef | grep python
pgrep -l bash
jobs
id -un
groups
who
w
last -3
hostname
ip addr
getent passwd root
ldd /bin/ls
nm -D /bin/ls | head -3
readelf -h /bin/ls
objdump -f /bin/ls
sqlite3 :memory: 'select 1'
sqlite3 --version
docker --version
docker compose version
kubectl version --client
terraform -version
tmux -V
vim --version | head -1
crontab -l
screen -v
ss -tlnp
""".strip().splitlines()
    if not line.startswith("#")
)


def is_held_out(command: str) -> bool:
    """Return whether *command* belongs to the half that is not used for tuning."""
    return hashlib.sha256(command.encode()).digest()[0] % 2 == 1


def make_workday(root: Path) -> None:
    """Fill *root*, a repository, with the files that the commands name."""
    files = {
        "README.md": "# App\n\nmain and foo\n",
        "docs/guide.md": "# Guide\n\nmain\n",
        "Makefile": "test:\n\tpython3 -m unittest discover -s tests\nhelp:\n\t@echo targets\n",
        "package.json": '{"name": "x", "version": "1.0.0", "dependencies": {}, "scripts": {}}\n',
        "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n',
        "data.csv": "name,n\na,1\nb,7\n",
        "app.log": "info: start\nerror: x\n",
        "run.sh": "#!/bin/sh\necho ran\n",
        "fix.diff": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# App\n+# Application\n",
        "go.mod": "module x\n\ngo 1.20\n",
        "src/app.py": "import util\n\n\ndef main():  # TODO\n    return util.x\n\n\n"
        "print(main())\n",
        "src/util.py": "import os\n\nx = 1\n",
        "tests/test_app.py": "import unittest\n\n\nclass T(unittest.TestCase):\n"
        "    def test_app(self):\n        assert True\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "run.sh").chmod(0o755)
    (root / "data.bin").write_bytes(bytes(range(256)) * 4 + b"some strings here\0")
    (root / "old.log.gz").write_bytes(gzip.compress(b"info\nerror: old\n"))
    with zipfile.ZipFile(root / "dist.zip", "w") as archive:
        archive.writestr("a.txt", "a\n")
    with tarfile.open(root / "dist.tar.gz", "w:gz") as archive:
        archive.add(root / "README.md", "dist/a.txt")
    identity = ("-c", "user.name=A", "-c", "user.email=a@b")
    for command in (("add", "."), ("commit", "-qm", "second")):
        subprocess.run(["git", *identity, *command], cwd=root, check=True, capture_output=True)
