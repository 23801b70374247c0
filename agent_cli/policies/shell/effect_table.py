"""The table of effects: for each program, verbs that say what it does, and their meaning."""

import re
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias, cast

Kind: TypeAlias = Literal["reads", "starts", "shows", "unknown", "acts"]
"""What an effect means.

"reads" and "shows" change nothing, and the second is worth a word in a question; what "starts"
does is in its arguments, which are read as well or count as unknown; "unknown" may change something
or not; "acts" changes something, or needs what a read-only run lacks: other hosts, a screen.
"""


class Effect(NamedTuple):
    """The effect of a call with this subcommand and these options."""

    subcommand: tuple[str, ...]
    options: tuple[str, ...]
    says: str
    kind: Kind


def is_shown(kind: str) -> bool:
    """Return whether a question mentions an effect of this *kind*."""
    return kind not in ("reads", "starts")


# Program, perhaps with a subcommand or an option, and what it does then. The longest entry counts;
# a line without a subcommand is for all others. Short options may be joined: `sed -ni`.
_TABLE: Final = """
[reads]
cat, bat, nl, tac, head, tail: shows files
ls, tree, exa, eza, dir: lists files
grep, rg, egrep, fgrep, ag, ack: searches for text
find: searches for files
diff, cmp, comm: compares files
jq, yq: picks values out of data
sha256sum, sha1sum, md5sum, cksum: computes checksums
wc: counts lines, words or characters
file, stat: shows what a file is
du, df: shows how much space is taken
sort, cut, tr, column, rev, paste, fold, fmt, join, shuf: prints text, rearranged
date: shows the time
pwd: shows the current folder
whoami, id, uname, hostname: shows who or what this machine is
echo, printf: prints text
true, false: does nothing
test, [, [[: checks a condition
cd, pushd, popd: goes to another folder
declare, local, readonly, unset, read, shift: sets or removes variables
exit, return, break, continue: ends what runs here
wait, jobs: waits for commands in the background, or lists them
which, type, whereis, hash, command -v: says where a program is
pgrep: lists processes
zcat, zgrep, bzcat, xzcat, zstdcat: shows packed files
readlink, realpath, basename, dirname: prints names of files
set, shopt, ulimit: changes settings of the shell
let, ((: computes numbers
getopts, mapfile, readarray: sets variables
git status, git log, git diff, git show, git blame, git ls-files: shows the repository
git rev-parse, git rev-list, git describe: shows the repository
git shortlog, git grep, git cat-file: shows the repository
git ls-tree, git show-ref: shows the repository
git for-each-ref, git merge-base, git check-ignore: shows the repository
od, hexdump, strings: shows the bytes of files
[starts]
source, .: runs a script in this shell
eval: runs its words as a command
exec: replaces the shell by a program
xargs, parallel: runs a command with the names it reads
time, timeout, nice, nohup, stdbuf, command, watch, setsid: runs a command, held in some way
git: works with the repository
uv, poetry, hatch, pdm, rye, conda: manages a Python project
sed, awk, gawk, mawk, uniq: prints text, rearranged
trap: changes settings of the shell
xxd: shows the bytes of files
fd: searches for files
[shows]
env, export, printenv: shows or changes the environment
tar -t, tar --list, unzip -l: lists an archive
ps: shows the arguments of other programs
sleep: waits
git stash list, git stash show: shows changes put aside
pip list, pip show, pip freeze, pip3 list, pip3 show, pip3 freeze: shows Python packages
apt list, apt search, apt show, apt-cache, brew list, brew search, brew info: shows programs
man: opens a program for the screen
info: shows a manual page
npm ls, npm list: shows packages
tar -x -O, tar -x --to-stdout: shows files of an archive
unzip -p, gzip -d -c, gunzip -c, bunzip2 -c, xz -d -c: shows packed files
gzip -l: lists an archive
patch --dry-run: says which files a patch would change
git bisect log: shows the steps of a search
[unknown]
man -P, man -H, man --html, man --pager: runs another program
git branch: creates or moves branches
git tag: makes a tag
make, ninja, just, cmake, gradle, gradlew, mvn, ant, bazel, meson, task, rake: runs the build
make test, make check, gradle test, mvn test, bazel test: runs the tests
pytest, tox, nox, jest, vitest, mocha, phpunit, rspec, ctest, playwright: runs the tests
ruff check, mypy, pyright, eslint, flake8, pylint, shellcheck, tsc, clippy: checks the code
black --check, isort --check, prettier --check, ruff format --check: checks the code
pre-commit: runs the project's checks
python, python3, pypy, ipython: runs Python
python -m, python3 -m: runs a Python module
node, deno, bun, ts-node, tsx: runs JavaScript
perl: runs Perl
ruby, irb: runs Ruby
php: runs PHP
lua, Rscript, julia, elixir, java, dotnet run: runs a program
pip, pip3: changes Python packages
npm, yarn, pnpm: runs or changes packages
npm test, npm t, yarn test, pnpm test, bun test: runs the tests
npm run, npm start, yarn run, pnpm run, bun run: runs a script of the project
npm run build, yarn build, pnpm build: runs the build
cargo, go, dotnet, swift, stack, cabal, mix, sbt, zig: runs the build
cargo test, go test, dotnet test, swift test, mix test: runs the tests
cargo run, go run, zig run: runs the project
cargo check, cargo clippy, go vet: checks the code
psql, mysql, sqlite3, mongosh, mongo, redis-cli, duckdb: works on a database
git config, git remote, git submodule: changes the repository
[acts]
tee: writes its input to files
rm, rmdir, unlink, shred: deletes files
rm -r, rm -R, rm --recursive: deletes folders
truncate: cuts files off
ln: makes links
mkdir: creates folders
chmod, chown, chgrp, chattr, setfacl: changes rights of files
find -delete: deletes files
find -fprint, find -fprintf, find -fprint0, find -fls: writes a file
sed -i, sed --in-place: edits files in place
perl -i, ruby -i: edits files in place
awk -i, yq -i: edits files in place
sort -o, tree -o, shuf -o, info --output: writes a file
git diff --output, git log --output, git show --output: writes a file
patch: changes files as a patch says
dd: copies blocks of files or disks
tar -x, tar --extract, unzip, gunzip, bunzip2, unxz, gzip -d, xz -d, 7z x: unpacks files
date -s, date --set: sets the clock
crontab: changes what runs at fixed times
crontab -l: shows what runs at fixed times
mount, umount: mounts file systems
sudo, doas, su, pkexec, runuser: runs with other rights
systemctl, service, launchctl: controls services
systemctl status, service status: shows the state of services
shutdown, reboot, halt, poweroff: stops the machine
ssh, scp, sftp, rsync: works on another machine
ping, dig, nslookup, host, traceroute: uses the network
open, xdg-open, start: opens another program
tmux, screen: starts a terminal session
tmux ls, tmux capture-pane: looks into a terminal session
git add, git rm, git mv, git reset, git update-index: changes what is staged
git reset --hard: discards changes that are not committed
git restore: discards changes that are not committed
git restore --staged: changes what is staged
git clean: deletes files that git does not know
git commit: makes a commit
git commit --amend: replaces the last commit
git push: sends commits to the remote
git push -f, git push --force, git push --force-with-lease: overwrites remote commits
git push -d, git push --delete: deletes a remote branch
git push --mirror, git push --prune: overwrites or deletes remote branches
git pull: fetches commits and merges them
git fetch: fetches commits
git clone: downloads a repository
git checkout, git switch: changes files to another version
git checkout -f, git switch -f, git checkout --force: discards changes that are not committed
git switch --discard-changes, git read-tree --reset: discards changes that are not committed
git branch -D, git branch -d, git branch --delete: deletes a branch
git tag -d, git tag --delete: deletes a tag
git merge, git cherry-pick, git revert, git am, git apply: changes files and may make commits
git rebase, git filter-branch, git filter-repo: rewrites commits
git stash: puts changes aside
git stash drop, git stash clear: deletes changes put aside
git stash pop, git stash apply: brings back changes put aside
git reflog expire, git reflog delete, git gc, git prune: deletes old commits
git update-ref -d: deletes a branch or a tag
git worktree add: makes another working tree
git worktree remove: deletes a working tree
git bisect: changes files to another version
make clean: runs the build's cleaning
make install: installs what was built
ruff --fix, eslint --fix, black, isort, prettier, gofmt -w, rustfmt: rewrites files
ruff format, go fmt, cargo fmt, dart format: rewrites files
pip install, pip3 install, pipx install: installs Python packages
uv pip install, uv add, uv sync, uv tool install, poetry add, poetry install: installs packages
pip uninstall, pip3 uninstall, uv remove, poetry remove: removes Python packages
pip download, pip3 download: downloads Python packages
npm install, npm i, npm ci, npm add: installs packages
yarn add, yarn install, pnpm install, pnpm add: installs packages
bun install, bun add: installs packages
npm uninstall, npm remove, yarn remove, pnpm remove: removes packages
npm update, npm upgrade, yarn upgrade, pnpm update: updates packages
npx, bunx, uvx, pipx run: downloads and runs a program
cargo add, cargo install, go get, go install, gem install, composer install: installs packages
cargo clean: deletes what was built
bundle install, composer require, mix deps.get: installs packages
npm publish, pnpm publish, yarn publish: publishes a package
bun publish, lerna publish, jsr publish: publishes a package
npm unpublish, pnpm unpublish: withdraws a published package
uv publish, poetry publish, hatch publish, flit publish, pdm publish: publishes a package
cargo publish, gem push, nuget push, twine upload, mvn deploy: publishes a package
apt, apt-get, dnf, yum, pacman, apk, brew, port, snap, zypper, choco, winget: changes programs
apt install, apt-get install, dnf install, yum install, brew install, apk add: installs programs
apt remove, apt-get remove, apt purge, brew uninstall: removes programs
docker, podman, docker-compose: controls containers
docker run, docker start, docker create: starts containers
podman run, docker compose up, podman start: starts containers
docker-compose up, docker restart, docker compose start, docker compose restart: starts containers
docker compose run, podman compose up: starts containers
docker exec, podman exec, docker compose exec: runs a command in a container
docker build, docker compose build, docker buildx, podman build: builds an image
docker push, podman push: publishes an image
docker pull, podman pull, docker compose pull: downloads an image
docker stop, docker kill, podman stop, docker compose stop: stops containers
docker compose down, docker-compose down: stops and removes containers
docker rm, podman rm: deletes containers
docker rmi, docker image rm, podman rmi: deletes images
docker volume rm, podman volume rm: deletes stored data
docker prune, docker system prune, docker volume prune, podman prune: deletes what nothing uses
docker builder prune, docker buildx prune: deletes the cache of builds
docker ps, docker images, docker logs, docker inspect, podman ps: looks at containers
docker compose ps, docker compose logs, docker stats, docker info: looks at containers
kubectl, oc, helm: changes a cluster
kubectl get, kubectl describe, kubectl logs, kubectl top, helm list: looks at a cluster
kubectl delete, oc delete, helm uninstall, helm delete: deletes parts of a cluster
kubectl apply, helm install, helm upgrade: changes a cluster
kubectl exec: runs a command in a cluster
terraform, tofu, pulumi, ansible, ansible-playbook, vagrant: changes machines
terraform plan, tofu plan, terraform validate: plans changes of machines
terraform apply, tofu apply: changes machines
terraform destroy, tofu destroy: deletes machines
aws, gcloud, az, doctl, heroku, vercel, netlify, flyctl, wrangler: works with a cloud account
gh: works with GitHub
gh pr create: opens a pull request
gh pr merge: merges a pull request
gh pr view, gh pr list, gh pr diff, gh pr checks, gh issue list, gh issue view: reads from GitHub
gh run view, gh run list, gh repo view, gh release list, gh search: reads from GitHub
gh release create: publishes a release
gh release delete, gh repo delete: deletes from GitHub
gh api: asks GitHub's interface
glab: works with GitLab
dropdb: deletes a database
createdb: creates a database
wipefs, fdisk, parted, sfdisk, blkdiscard, mkfs: overwrites disks
alembic, flyway, prisma: changes a database
cp, install, ditto: copies files
mv, rename: moves files
touch, mktemp, mkfifo, mknod: creates files
split, csplit: writes many files
tar, zip, gzip, bzip2, xz, zstd, 7z: packs files
kill, pkill, killall: ends processes
curl, wget, nc, ncat, ftp, telnet, aria2c, http: uses the network
vim, vi, nano, emacs, less, more, top, htop, code: opens a program for the screen
ss, netstat, lsof: shows what runs on this machine
journalctl: shows what services logged
at: starts a command later
npm outdated, npm view, npm audit: asks for packages in the network
npm init, npm create, npm link: changes the project
uv lock, uv venv, uv init, uv build, poetry lock, poetry init, poetry build: changes the project
cargo new, cargo init, cargo fix, cargo update, go mod, go generate, go work: changes the project
poetry update, bundle update: changes packages
bundle add, gem update, gem uninstall, cargo remove: changes packages
git init, git lfs, git maintenance, git repack: changes the repository
"""


@cache
def effect_table() -> dict[str, list[Effect]]:
    """Return the entries of each program, in the order above."""
    table: dict[str, list[Effect]] = {":": [Effect((), (), "does nothing", "reads")]}
    kind: Kind = "unknown"
    for line in _TABLE.strip().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            kind = cast("Kind", heading[1])
            continue
        written, says = line.split(": ", 1)
        for each in written.split(", "):
            name, *others = each.split()
            subcommand = tuple(word for word in others if not word.startswith("-"))
            options = tuple(word for word in others if word.startswith("-"))
            table.setdefault(name, []).append(Effect(subcommand, options, says, kind))
    return table
