"""What programs do, in verbs: one line for each effect."""

from functools import cache
from typing import Final, TypeAlias

Entry: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], str]
"""Subcommand, options, and the effect that a call with all of them has."""

# Program, perhaps with a subcommand or an option, and what it does then. The longest entry counts;
# a line without a subcommand is for all others. Short options may be joined: `sed -ni`.
_TABLE: Final = """
rm, rmdir, unlink, shred: deletes files
rm -r, rm -R, rm --recursive: deletes folders
truncate: cuts files off
mv: moves files
cp, install, ditto: copies files
ln: makes links
mkdir: creates folders
touch, mktemp, mkfifo: creates files
chmod, chown, chgrp, chattr, setfacl: changes rights of files
find -delete: deletes files
find -fprint, find -fprintf, find -fprint0, find -fls: writes a file
sed -i, sed --in-place: edits files in place
perl -i, ruby -i: edits files in place
awk -i: edits files in place
sort -o, tree -o: writes a file
patch: changes files as a patch says
dd: copies blocks of files or disks
split, csplit: writes many files
tar, zip, gzip, bzip2, xz, zstd, 7z: packs files
tar -x, tar --extract, unzip, gunzip, bunzip2, unxz, gzip -d, xz -d, 7z x: unpacks files
tar -t, tar --list, unzip -l: lists an archive
date -s, date --set: sets the clock
crontab: changes what runs at fixed times
crontab -l: shows what runs at fixed times
mount, umount: mounts file systems
env, export, printenv: shows or changes the environment
ps: shows the arguments of other programs
kill, pkill, killall: ends processes
sudo, doas, su, pkexec, runuser: runs with other rights
systemctl, service, launchctl: controls services
systemctl status, service status: shows the state of services
shutdown, reboot, halt, poweroff: stops the machine
sleep: waits
curl, wget, nc, ftp, telnet, aria2c, http: uses the network
ssh, scp, sftp, rsync: works on another machine
ping, dig, nslookup, host, traceroute: uses the network
open, xdg-open, start: opens another program
tmux, screen: starts a terminal session
tmux ls, tmux capture-pane: looks into a terminal session
vim, vi, nano, emacs, less, more, man: opens a program for the screen
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
git branch: creates or moves branches
git branch -D, git branch -d, git branch --delete: deletes a branch
git tag: makes a tag
git tag -d, git tag --delete: deletes a tag
git merge, git cherry-pick, git revert, git am, git apply: changes files and may make commits
git rebase, git filter-branch, git filter-repo: rewrites commits
git stash: puts changes aside
git stash drop, git stash clear: deletes changes put aside
git stash pop, git stash apply: brings back changes put aside
git stash list, git stash show: shows changes put aside
git reflog expire, git reflog delete, git gc, git prune: deletes old commits
git update-ref -d: deletes a branch or a tag
git worktree add: makes another working tree
git worktree remove: deletes a working tree
git config, git remote, git init, git submodule, git lfs: changes the repository
git bisect: changes files to another version
make, ninja, just, cmake, gradle, gradlew, mvn, ant, bazel, meson, task, rake: runs the build
make test, make check, gradle test, mvn test, bazel test: runs the tests
make clean: runs the build's cleaning
make install: installs what was built
pytest, tox, nox, jest, vitest, mocha, phpunit, rspec, ctest, playwright: runs the tests
ruff check, mypy, pyright, eslint, flake8, pylint, shellcheck, tsc, clippy: checks the code
ruff --fix, eslint --fix, black, isort, prettier, gofmt -w, rustfmt: rewrites files
ruff format, go fmt, cargo fmt, dart format: rewrites files
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
pip install, pip3 install, pipx install: installs Python packages
uv pip install, uv add, uv sync, uv tool install, poetry add, poetry install: installs packages
pip uninstall, pip3 uninstall, uv remove, poetry remove: removes Python packages
pip list, pip show, pip freeze, pip3 list, pip3 show, pip3 freeze: shows Python packages
pip download, pip3 download: downloads Python packages
npm, yarn, pnpm: runs or changes packages
npm install, npm i, npm ci, npm add: installs packages
yarn add, yarn install, pnpm install, pnpm add: installs packages
bun install, bun add: installs packages
npm uninstall, npm remove, yarn remove, pnpm remove: removes packages
npm update, npm upgrade, yarn upgrade, pnpm update: updates packages
npm test, npm t, yarn test, pnpm test, bun test: runs the tests
npm run, npm start, yarn run, pnpm run, bun run: runs a script of the project
npm run build, yarn build, pnpm build: runs the build
npm ls, npm list, npm outdated, npm view: shows packages
npx, bunx, uvx, pipx run: downloads and runs a program
cargo, go, dotnet, swift, stack, cabal, mix, sbt, zig: runs the build
cargo test, go test, dotnet test, swift test, mix test: runs the tests
cargo run, go run, zig run: runs the project
cargo check, cargo clippy, go vet: checks the code
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
apt list, apt search, apt show, apt-cache, brew list, brew search, brew info: shows programs
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
psql, mysql, sqlite3, mongosh, mongo, redis-cli, duckdb: works on a database
dropdb: deletes a database
createdb: creates a database
wipefs, fdisk, parted, sfdisk, blkdiscard, mkfs: overwrites disks
alembic, flyway, prisma: changes a database
"""


@cache
def effect_table() -> dict[str, list[Entry]]:
    """Return the entries of each program, in the order above."""
    table: dict[str, list[Entry]] = {}
    for line in _TABLE.strip().splitlines():
        written, said = line.split(": ", 1)
        for each in written.split(", "):
            name, *others = each.split()
            subcommand = tuple(word for word in others if not word.startswith("-"))
            options = tuple(word for word in others if word.startswith("-"))
            table.setdefault(name, []).append((subcommand, options, said))
    return table
