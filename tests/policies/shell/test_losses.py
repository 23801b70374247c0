"""What cannot be undone on servers, in registries and databases asks in every mode."""

import itertools
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, command_rule, judge
from agent_cli.policies.shell.reach import has_only_words
from agent_cli.policies.shell.reserved import is_reserved
from agent_cli.policies.shell.written_texts import files_run
from tests.tables import each_row


def asks(script: str) -> bool:
    """Return whether *script* asks although a rule allows everything."""
    rules = CommandRules(allow=[command_rule("*")])
    return judge(script, rules, Reach(root=Path("/nowhere"))).verdict == "ask"


@each_row(
    "script",
    [
        'psql -c "DELETE FROM users"',
        "mysql -e 'TRUNCATE orders'",
        'sqlite3 dev.db "drop index i"',
        "psql <<< 'DROP SCHEMA x CASCADE'",
        'echo "DELETE FROM a" | mysql shop',
        "redis-cli -h h flushdb",
        "redis-cli flushall",
        "mongosh --eval 'db.dropDatabase()'",
        "mysqladmin -f drop shop",
        "dropuser bob",
        "dropdb x",
        "influx bucket delete -n x",
        "cqlsh -e 'DROP KEYSPACE k'",
        "git prune --expire now",
        "git prune",
        "git gc --aggressive --prune=now",
        "git -C x prune",
        "git --config-env core.abbrev=X prune",
        "git reflog expire --expire=now --all",
        "kill -9 -1",
        "kill -KILL -1",
        "killall -u bob",
        "kill -s TERM -- -1",
        "pkill -9 -U 1000",
        "pkill -u root",
        "gh repo delete x --yes",
        "gh gist delete 3",
        "gh ssh-key delete 3",
        "gh project item-delete 1",
        "gh project delete 1",
        "gh label delete bug",
        "gh -R a/b label delete bug",
        "gh codespace delete --all",
        "gh release delete-asset v1 x",
        "glab repo delete x",
        "kubectl --context p delete pod x",
        "kubectl delete -f x.yml",
        "helm -n a uninstall x",
        "docker volume prune -f",
        "docker system prune",
        "podman system reset",
        "docker image prune",
        "aws ec2 terminate-instances --instance-ids i",
        "aws dynamodb delete-table --table-name t",
        "aws --profile p s3 rb s3://x --force",
        "aws sqs purge-queue --queue-url u",
        "aws s3 rm s3://x --recursive",
        "gcloud projects delete x",
        "gsutil -m rm -r gs://x",
        "az group delete -n x",
        "terraform destroy -auto-approve",
        "terraform -chdir=infra destroy",
        "terragrunt destroy-all",
        "terragrunt run-all destroy",
        "pulumi destroy",
        "cdk destroy",
        "eksctl delete cluster x",
        "heroku apps:destroy x",
        "flyctl apps destroy x",
        "vercel remove x",
        "supabase db reset",
        "wrangler kv namespace delete x",
        "rclone purge r:x",
        "s3cmd del s3://x",
        "mc rm --recursive a/b",
        "zfs destroy tank/x",
        "lvremove vg/x",
        "cryptsetup luksErase /dev/x",
        "vagrant destroy",
        "virsh undefine x",
        "restic forget --prune x",
        "borg delete repo::a",
        "gpg --delete-secret-keys x",
        "vault kv destroy -versions=1 x",
        "etcdctl del x",
        "nomad job stop -purge x",
        "kafka-topics --delete --topic x",
        "rabbitmqctl delete_queue x",
        "rails db:drop",
        "bundle exec rake db:reset",
        "python manage.py flush",
        "./manage.py flush --noinput",
        "python3.12 manage.py migrate shop zero",
        "django-admin reset_db",
        "kubectl scale --replicas=0 deployment/web",
        "kubectl scale deploy web --replicas 0",
        "mysql -e 'DELETE a, b.* FROM a JOIN shop.b ON a.id = b.id'",
        "mysql -e 'DELETE LOW_PRIORITY IGNORE FROM a'",
        "mongorestore --drop dump",
        "pg_dropcluster 14 main",
        "flask db downgrade",
        "diskutil eraseDisk JHFS+ x disk2",
        "dvc gc -w",
        "swift delete container",
        "npx prisma migrate reset",
        "php artisan migrate:fresh",
        "flyway clean",
        "mix ecto.drop",
        "npm owner rm a b",
        "npm deprecate x@1 no",
        "gem yank x -v 1",
        "cargo yank --version 1 x",
        "docker swarm leave --force",
        "multipass delete --purge x",
        "limactl delete x",
        "journalctl --vacuum-time=1s",
        "userdel -r bob",
        "nvme format /dev/x",
        "hdparm --security-erase x /dev/y",
        "gh run delete 3",
        "gh variable delete X",
        "gh gpg-key delete 1",
        "gh project field-delete --id 1",
        "gh cs delete -c x",
        "gh api --method delete repos/a/b",
        "gh api -X delete repos/a/b/labels/x",
        "pg_restore --clean -d x a.dump",
        "mongosh --eval 'db.x.remove({})'",
        "mongo --eval 'db.x.drop()'",
        "clickhouse-client -q 'DROP TABLE x'",
        'duckdb a.db "drop table x"',
        "alembic downgrade base",
        "npx sequelize-cli db:drop",
        "npx typeorm schema:drop",
        "diesel database reset",
        "sqlx database drop",
        "dotnet ef database drop -f",
        "goose reset",
        "dbmate drop",
        "migrate -path x -database y drop",
        "npx prisma db push --accept-data-loss",
        "php bin/console doctrine:schema:drop --force",
        "killall5 -9",
        "pkill .",
        "pkill -9 ''",
        "gcloud compute instances delete x",
        "aws cloudformation delete-stack --stack-name x",
        "aws kms schedule-key-deletion --key-id x",
        "aws ec2 release-address --allocation-id x",
        "sam delete",
        "serverless remove",
        "firebase firestore:delete --all-collections",
        "netlify sites:delete x",
        "heroku pg:reset",
        "heroku addons:destroy x",
        "fly volumes destroy x",
        "doctl compute droplet delete x",
        "tofu destroy",
        "kubectl replace --force -f x",
        "oc delete project x",
        "flux uninstall",
        "argocd app delete x",
        "minikube delete",
        "k3d cluster delete",
        "docker volume rm x",
        "lxc delete x",
        "incus delete x",
        "VBoxManage unregistervm x --delete",
        "zpool destroy x",
        "btrfs subvolume delete x",
        "mkswap /dev/x",
        "sgdisk --zap-all /dev/x",
        "vsce publish",
        "npx semantic-release",
        "npx changeset publish",
        "goreleaser release",
        "pod trunk push x.podspec",
        "mix hex.publish",
        "cabal upload --publish x",
        "anaconda upload x",
        "flutter pub publish",
        "dart pub publish",
        "deno publish",
        "sbt publish",
        "./gradlew publish",
        "pnpm -r publish",
        "yarn npm publish",
        "helm push x oci://r",
        "kubectl -n list delete pod x",
        "kubectl --context get delete pod x",
        "kubectl delete pod x --dry-run=none",
        "kubectl delete pod x --dry-run=client --dry-run=none",
        "npm publish --dry-run false",
        "npm publish --dry-run --no-dry-run",
        "rsync -n --no-n --delete a/ b/",
        "git prune -n --no-dry-run",
        "helm uninstall x --description --dry-run",
        "npm owner rm a b --dry-run",
        "yarn publish --dry-run",
        "kubectl drain node1 --delete-emptydir-data",
        "oc adm drain node1",
        "redis-cli -n 2 DEL key",
        "redis-cli unlink a b",
        "gh api graphql -f query='mutation { deleteRef(input: {refId: 1}) { id } }'",
        'curl -d \'{"query":"\\nmutation{deleteIssue(input:{})}"}\' https://api.github.com/graphql',
        "psql -c 'DELETE/**/FROM users'",
        "psql -c 'DROP /* the old */ TABLE users'",
        "psql -c 'DELETE -- all\nFROM users'",
        "mysql -e 'DELETE # all\nFROM users'",
        "mysql -e '/*! DROP TABLE users */'",
        "psql -c 'DELETE/* all' -c 'FROM users; drop table a'",
        "knex migrate:rollback --all",
        "npx sequelize-cli db:migrate:undo:all",
        "bin/rails db:rollback",
        "npx typeorm migration:revert",
        "mix ecto.rollback",
        "curl -X POST localhost:9200/i/_delete_by_query -d '{}'",
        "curl -XPOST 'http://es:9200/logs-*/_delete_by_query?conflicts=proceed'",
        "http POST es:9200/i/_delete_by_query",
        "curl 'http://solr:8983/solr/c/update' -d '<delete><query>*:*</query></delete>'",
        "curl -X DELETE http://localhost:9200/index",
        "curl -X DELETE https://api.example.com/v1/things/1",
        'curl -X DELETE "$URL"',
        "curl -x http://localhost:3128 -X DELETE shop.example/1",
        "curl -X DELETE --resolve localhost:80:8.8.8.8 http://localhost/1",
        "bq rm -r -f dataset",
        "atlas schema clean -u mysql://localhost/db",
        "dotnet ef database update 0",
        "rails db:schema:load",
        "bundle exec rake db:structure:load",
        "rails db:setup",
        "rails db:seed:replant",
        "rails db:truncate_all",
        "mix ecto.reset",
        "php artisan queue:clear",
        "drush sql-drop -y",
        "wp db reset --yes",
        "vendor/bin/phinx rollback -t 0",
        "sea-orm-cli migrate fresh",
        "liquibase rollback-count 3",
        "mvn flyway:clean",
        "cargo sqlx database drop",
        "psql -c 'UPDATE users SET active = false'",
        "mysql -e 'ALTER TABLE users DROP PRIMARY KEY'",
        "mysql -e 'RESET MASTER'",
        "cypher-shell 'MATCH (n) DETACH DELETE n'",
        "mongosh --eval 'db.a.findOneAndDelete({})'",
        "redis-cli zremrangebyrank k 0 -1",
        "redis-cli SPOP k",
        "redis-cli EVAL \"return redis.call('DEL','x')\" 0",
        "rails runner 'User.delete_all'",
        'python manage.py shell -c "User.objects.all().delete()"',
        "gsutil -m rsync -r -d a gs://b",
        "s3cmd sync --delete-removed a s3://b",
        "azcopy sync a b --delete-destination=true",
        "heroku pg:backups:restore b001 DATABASE_URL",
        *("tiup cluster clean c --all", "wal-g backup-fetch /var/lib/postgresql LATEST"),
        *("pgbackrest --stanza=main restore", "xtrabackup --copy-back --target-dir=/b"),
        *("rethinkdb restore a.tar.gz --force", "hg strip tip", "hg --config a.b= strip -r 5"),
        *("ansible all -m file -a 'path=/x state=absent'", "lftp -e 'rm -r a; bye' host"),
        *("lftp -c 'open h; mirror -R --delete a b'", "smbclient //h/s -c 'recurse;deltree a'"),
        "terraform state push x",
        "kubectl apply --prune -f x -l a=b",
        "kubeadm reset -f",
        "docker stack rm x",
        "nodetool decommission",
        "hdfs dfs -rm -r /x",
        "rabbitmqctl force_reset",
        "kafka-consumer-groups.sh --reset-offsets --to-latest --execute --group g",
        "kafka-acls.sh --remove",
        "pgbackrest --stanza=main delete",
        "zfs rollback -r tank/x@s",
        "tarsnap --nuke",
        "diskutil apfs deleteVolume disk2s1",
        "tmutil deletelocalsnapshots /",
        "gpg --delete-secret-key x",
        "wsl.exe --unregister Ubuntu",
        "pwsh -Command 'Format-Volume -DriveLetter D'",
        "cat img > /dev/sdb",
        "cp img /dev/nvme0n1",
        "npx rimraf ~/x",
        # Programs that no table knows.
        "tea repos delete x",
        "/opt/tea/bin/tea repos delete x",
        "~/bin/tea repos delete x",
        "npx convex-admin purge",
        "p4 obliterate -y //depot/...",
        "occ user:delete x",
        "rancher clusters delete x",
        "barman delete main oldest",
        "juju destroy-model x",
        "cloudsmith delete o/r/p",
        "aliyun ecs DeleteInstance --InstanceId i",
        "couchbase-cli bucket-delete -c x",
        "mysqlsh --sql -e 'drop schema x'",
        "npm run publish",
        "pnpm --filter a publish",
        "yarn workspace a npm publish",
        "cargo +nightly publish",
        "npm publish --tag --dry-run",
        "git clean -e -n -f",
        "git clean -f -- -n",
        "git clean -n --no-dry-run -f",
        *("git clean -fdx", "git clean -fdx .", "git clean -fdx -e build", "git clean -fdx '*.o'"),
        *("git clean -fdx build $x", "git clean -f :/", "git clean -fdx ../x", "git clean -f .git"),
        *("cd .. && git clean -fdx build", "git -C .. clean -fdx build", "git clean -fdx $x"),
        *(f"{each} git clean -fdx x" for each in ("GIT_WORK_TREE=/a", "env GIT_WORK_TREE=/a")),
        *("export GIT_WORK_TREE=/a; git clean -f x", "git config core.worktree /a; git clean -f x"),
        *("docker image prune", "docker container prune -f", "podman pod prune"),
        *("docker $x prune -f", 'docker "$@" prune', "docker --context builder volume prune"),
        "docker volume rm builder",
        *("crontab /dev/null", "sudo crontab -u bob /dev/null", "crontab -ir", "crontab <<< ''"),
        *("crontab - < /dev/null", ": | crontab -", 'echo "" | sudo crontab -', "echo|crontab"),
        *(
            "printf '' | crontab -u bob -",
            "cat /dev/null | crontab",
            "bash -c 'crontab </dev/null'",
        ),
        *("docker rmi $(docker images -q)", "docker rmi -f `docker images -aq`", "podman rmi -af"),
        *(
            "docker image rm $(sudo docker image ls -q)",
            "docker images -q | xargs -r docker rmi -f",
        ),
        *("for i in $(docker images -q); do docker rmi $i; done", "podman rmi --all --force"),
        "gh release create v1 --draft --draft=false",
        *("fastly logging s3 delete --name x", "pd service delete P123", "./mvnw release:perform"),
        *("gitlab-runner unregister --all-runners", "gitlab-rake gitlab:backup:restore"),
        *("curl -X POST https://h/job/x/doDelete", "azcopy sync a b --delete-destination true"),
        *("http POST :7700/indexes/x/documents/delete-batch", "supabase stop --no-backup"),
    ],
)
def test_what_is_lost_elsewhere_asks_despite_any_allow_rule(script: str) -> None:
    """Threat 19: no copy of ours brings back what a server, a disk or a database loses."""
    assert asks(script)


@each_row(
    "script",
    [
        'psql -c "select 1"',
        "sqlite3 a.db .tables",
        "redis-cli get x",
        "git gc",
        "git remote prune origin",
        "git worktree prune",
        *("docker builder prune -af", "docker buildx prune", "docker network prune -f"),
        "git fetch --prune",
        "git commit -m 'prune dead code'",
        "git log --grep prune",
        "kill 123",
        "kill -9 123",
        "kill -1 123",
        "kill %1",
        "pkill node",
        'pkill -f "vite --port"',
        "killall node",
        "gh pr view 1",
        "gh issue create --title 'delete the cache' --body x",
        "gh issue edit 1 --remove-label bug",
        "gh pr list --label delete",
        "gh label list",
        "kubectl get pods",
        "kubectl apply -f x",
        "helm upgrade x y",
        "docker rm x",
        "docker compose down",
        "docker build -t x .",
        "docker ps",
        "aws s3 ls",
        "aws s3 cp a s3://x",
        "gcloud config list",
        "terraform plan",
        "terraform apply",
        "pulumi up",
        "npm install",
        "npm test",
        "npm run reset",
        "npm run delete-cache",
        "make clean",
        "make drop",
        "rails db:migrate",
        "rake db:migrate",
        "python manage.py migrate",
        "python manage.py flush --help",
        "python manage.py migrate shop zero --plan",
        "kubectl scale deploy web --replicas 3",
        "mysql -e 'SELECT deleted, id FROM a'",
        "psql -c 'select delete_at, id from users'",
        "dvc remove data.dvc",
        "swift run app remove",
        "npx prisma migrate dev",
        "heroku logs",
        "vercel deploy",
        "rclone copy a b",
        "restic backup x",
        "vault kv get x",
        "etcdctl get x",
        "git rm x",
        "git branch -d x",
        "cargo clean",
        "go clean -cache",
        "conda env remove -n x",
        "pip uninstall -y x",
        "apt purge x",
        "gh run download 3",
        "az vm list",
        "echo drop table x",
        'grep -rn "DROP TABLE" migrations',
        "cat drop.sql",
        'git commit -m "psql: drop table users"',
        "zfs list",
        "virsh list",
        "gpg --list-keys",
        "mytool x publish",
        "mkdir publish",
        "dotnet publish",
        "kill -s HUP 12",
        "pkill -f node",
        *("crontab mycron", "(crontab -l; echo '@daily x') | crontab -", "crontab -l > /dev/null"),
        *("echo '@daily x' | crontab -", "crontab -l | grep -v x | crontab -", "echo | crontab -l"),
        *(
            "docker rmi x",
            "docker rmi $(docker images -q x)",
            "docker images -q x | xargs docker rmi",
        ),
        *(
            "docker rmi $(docker images -f dangling=true -q)",
            "docker images -q | xargs docker inspect",
        ),
        "gh search issues delete",
        "gh pr create -t rm -b remove",
        "gh pr edit 12 --add-label delete",
        "gh label create delete",
        "gh api graphql -f query='{ viewer { login } }'",
        "gh api graphql -f query='mutation { undeleteIssue(input: {}) { id } }'",
        "kubectl -n drop get pods",
        "kubectl create configmap delete-config --from-file=a",
        "kubectl exec web -- rm /tmp/x",
        "kubectl uncordon node1",
        "helm repo remove a",
        "helm plugin uninstall diff",
        "aws lambda invoke --function-name delete-user out.json",
        "aws lambda get-function --function-name remove-thing",
        "aws cloudformation describe-stacks --stack-name rm",
        "gcloud logging read delete",
        "supabase migration new drop_users",
        "redis-cli set x 1",
        "mysql -e 'select truncate(1.234, 2)'",
        'psql -c "select deleted from x -- a comment"',
        "grep -n db:reset README.md",
        "cat db:drop",
        "echo db:reset",
        "git commit -m db:reset",
        "rails db:migrate:status",
        "git prune --dry-run",
        "git prune -nv",
        "npm publish --dry-run",
        "cargo publish --dry-run",
        "kubectl delete pod x --dry-run=client",
        "helm uninstall x --dry-run",
        "aws s3 rm s3://x/y --dryrun",
        "rclone sync a b --dry-run",
        "goreleaser release --snapshot",
        "rsync -avn --delete a/ b/",
        "rsync -av --dry-run --delete a/ b/",
        "gh repo delete --help",
        "curl -X DELETE http://localhost:3000/api/urls/2",
        "curl -iX DELETE 127.0.0.1:8080/x -H 'Content-Type: application/json'",
        "http DELETE localhost:5000/x",
        "curl -X POST http://es:9200/i/_search -d '{}'",
        "git clean -n -fd",
        "git clean -fdn",
        "git clean -fd --dry-run",
        "cargo publish --workspace --dry-run",
        "npm publish -v --dry-run",
        "gh release create v1 --draft",
        "pnpm check:release-notes --mode publish",
        "npm test -- --grep publish",
        "pnpm db:reset:test",
        "psql -c 'UPDATE users SET active = false WHERE id = 1'",
        "psql -c 'select * from updates'",
        "redis-cli lrange k 0 -1",
        "./bin/todo delete 3",
        "target/debug/app drop 1",
        "npx tsx src/cli.ts delete 1",
        "npx rimraf dist",
        "npx jest delete",
        "yarn purge",
        "make purge",
        "sudo -u a npm run purge",
        "uv run make purge",
        "coverage erase",
        "pm2 delete app",
        "mytool get delete",
        "mytool help delete",
        "mytool delete --help",
        "mytool -m 'please delete it'",
        'kubectl patch cm x -p \'[{"op": "remove", "path": "/data/a"}]\'',
        "gh pr merge 12 --squash --delete-branch",
        "yarn workspace a build",
        "bq ls",
        "dotnet ef database update",
        "terraform state list",
        "cat /dev/sda1 > img",
        "echo x > /dev/null",
        "pwsh -c 'Remove-Item -Recurse node_modules'",
        "zfs snapshot tank/x@s",
        *(
            "hg log",
            "alias l='hg log -T \"{desc|strip|firstline}\" '",
            "wal-g backup-list",
            "pgbackrest info",
            "xtrabackup --backup --target-dir=/b",
        ),
        *("lftp -c 'open h; mirror a b'", "smbclient //h/s -c 'ls; get model'", "tiup list"),
        "vault kv get secret/x",
        *("diskutil list", "mytool service list", "mytool find x delete", "vercel env ls"),
        *("python3 -c \"print('DELETE FROM a')\"", "python3 -c \"db.execute('SELECT 1')\""),
        "cat > x.py <<'E'\ndb.execute('DELETE FROM a WHERE id = ?', [id])\nE\npython x.py &",
        "cat > x.js <<'E'\ndb.query(`DELETE FROM a WHERE id = ${id}`)\nE\nnode x.js",
        "cat > x.py <<'E'\ndb.execute(f\"delete from a where id = '{id}'\")\nE\npython x.py",
        "python3 -c \"db = connect(':memory:'); db.execute('DELETE FROM a')\"",
        "cat > x.py <<'E'\ndb.execute('DELETE FROM a')\nE\npytest x.py",
    ],
)
def test_what_loses_nothing_is_left_to_the_rules(script: str) -> None:
    """A question about each harmless command would be answered unread."""
    assert not asks(script)


@each_row(
    "script",
    [
        "psql shop <<'E'\nDROP TABLE a;\nE",
        "psql shop <<< 'drop table a'",
        "printf 'truncate a' | mysql shop",
        "timeout 5 sqlite3 a.db 'delete from b'",
        "bash -c 'redis-cli flushall'",
        "echo 'del a' | redis-cli",
        "redis-cli <<E\nset a 1\nUNLINK b\nE",
        "psql shop <<'E'\nDELETE\n-- all\nFROM a;\nE",
        "python3 -c \"db.execute('DELETE FROM a')\"",
        'python3 - <<\'E\'\nwith db as c:\n    c.executescript("""\n    DROP TABLE a;\n    """)\nE',
        "cat > x.py <<'E'\ncur.execute('TRUNCATE a')\nE\npython x.py",
        "python3 -c \"db.execute('DROP TABLE a -- =?')\"",
        "node -e \"await db.query('DELETE FROM ' + a)\"",
        "ruby -e 'db.execute \"DROP TABLE a\"'",
    ],
)
def test_statement_that_deletes_asks_by_whatever_way_it_reaches_a_database(script: str) -> None:
    """Threat 19: as an argument, a here-document or the output of another command."""
    assert asks(script)


@each_row(
    ("script", "expected"),
    [
        *((f'pwsh -Command "ri -r {home}"', True) for home in ("$HOME", "$env:USERPROFILE", "~")),
        *((f"pwsh -c 'Remove-Item -Recurse -{each}:~'", True) for each in ("Path", "LiteralPath")),
        *(("pwsh -c 'rm -r -Path:~'", True), ("pwsh -c 'Remove-Item -Path:dist -Recurse'", False)),
        ("cmd.exe /c 'rmdir /s /q %USERPROFILE%'", True),
        *((f"cmd.exe{each}", True) for each in (" <<< 'rd /s /q C:\\x'", " <<E\ndel /s C:\\\nE")),
        *(("echo 'del /s /q C:\\Users' | cmd.exe", True), ("echo 'ri -r ~' | pwsh -c -", True)),
        *(("echo 'dir /b' | cmd.exe", False), ("echo 'del /q build' | cmd", False)),
        *(
            (f"cat > x.{kind} <<'E'\n@echo off\ndel /s /q C:\\Users\nE\n{run}", True)
            for kind, run in (
                *(("bat", "cmd.exe /c x.bat"), ("cmd", "./x.cmd"), ("bat", "wine cmd /c x.bat")),
                *(("ps1", "pwsh x.ps1"), ("ps1", "pwsh -File ./x.ps1")),
            )
        ),
        ("cat > x.bat <<'E'\ndel /q build\\*.obj\nE\ncmd /c x.bat", False),
        ("cat > x.py <<'E'\ndel x\nE\npython3 x.py", False),
    ],
)
def test_deleting_by_a_shell_of_windows_asks(script: str, *, expected: bool) -> None:
    """Threat 19: whatever it calls the home, and wherever its script stands."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(
            (f'{run} find . -name "$x" -exec rm -rf {{}} +', True)
            for run in ("timeout 5", "nice", "sudo -u a", "env A=b nohup")
        ),
        *(
            (f"{run} find . -name __pycache__ -exec rm -rf {{}} +", False)
            for run in ("timeout 5", "nice", "sudo")
        ),
        ("timeout 5 find . -name '*.pyc' -print0 | xargs -0 rm -f", False),
    ],
)
def test_search_that_another_program_starts_asks_as_it_does_alone(
    script: str, *, expected: bool
) -> None:
    """Threat 19: the names that it finds are not known there either."""
    assert asks(script) is expected


_REPEATED = (
    *("{;a}", "x\n{;a\n}", "sed '{;1}' a"),
    *("echo {word }", "echo {delete/* }", "nice {a -b }", "echo {'a b' }", 'echo {"$x" }'),
    *(
        "{true; }",
        "{ls && }ls",
        "{cat | }cat",
        "echo {$(ls) }",
        "echo {$(}",
        "{cat > a <<E\nx\nE\n}",
    ),
    *(
        "cat > a <<'E'\n{line $x `ls`\n}E\n",
        "cat > a <<E\n{line $x `ls`\n}E\n",
        "ls {*a}",
        "ls {*a? }",
    ),
    *("{a=1 }ls", "{a=b\n}", "echo {>a }", "{for i in a b; do rm $i; done\n}", "x=({a })"),
    *(
        "{[[ a = b ]] && }ls",
        "[[ {a = b && }x ]]",
        "echo $(({1+}1))",
        "{(}",
        "echo {'a\"}",
        "sed '{s/a/b/;}'",
    ),
    *(
        "xargs bash -c '{rm x }'",
        "python3 -c '{print(1); }'",
        "Rscript -e '{unlink(}'",
        "cat {a/}",
        "rm {/[}",
        "env {a=}",
        "{cd a; }",
        "{$a/b }",
        "{d=b && rm -rf $d && }ls",
    ),
    *(
        "ls {*.a }| xargs rm",
        "xargs sh -c '{rm \"}'",
        "echo {$(find }",
        "rm {$(ls -a }",
        "xargs {mv }",
    ),
    *(
        "xargs {mv .git a }",
        "for x in {$(ls) }; do rm $x",
        "{mv a b; }rm -rf b/c",
        "{truncate -s 1 a;}",
    ),
    *("rm -rf {../}x", "cat {./../}x", "ls {*/../}x", "git checkout {$a }", "rm {a }!(b)"),
    *("xargs bash -c '{fd x }'", "bash -c '{echo x; }'", "echo {{a,b} }", "psql -c '{/* a }'"),
    *("rm x; {(cd /);}", "rm x; {cd / & }", "cat > Makefile <<'E'\n{include a\n}E\nmake"),
    *("cat > .git/config <<'E'\n{[}\nE\ngit a", "D=x; rm -rf $D; {find . -exec a {} + ; }"),
)


@pytest.mark.parametrize(
    ("shape", "length"),
    [
        # A quarter of the shapes, at each length; `make soak` judges all.
        pytest.param(shape, length, marks=() if at % 8 in (0, 7) else pytest.mark.slow)
        for at, (shape, length) in enumerate(
            [
                ("{a=b && }rm -rf $a", 14_000),
                *itertools.product(_REPEATED, [12_000, 120_000]),
                *((shape, 1_000_000) for shape in ("echo {word }", "{;a}", "sed '{;1}' a")),
            ]
        )
    ],
)
def test_a_long_command_is_judged_in_a_moment(shape: str, length: int, tmp_path: Path) -> None:
    """The session waits for it: some took a minute. Above 128,000 characters it asks at once."""
    head, _, rest = shape.partition("{")
    unit, _, tail = rest.rpartition("}")
    script = head + unit * (length // len(unit)) + tail
    (tmp_path / ("a" * 60)).touch()
    reach = Reach(root=tmp_path, secrets_are_masked=True)
    before = time.process_time()

    verdict = judge(script, CommandRules(allow=[command_rule("*")]), reach).verdict
    needs_person = is_reserved(script, reach)

    assert time.process_time() - before < 3
    assert length < 128_000 or (verdict == "ask" and needs_person)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_text_without_structure_is_judged_in_a_moment(seed: int, tmp_path: Path) -> None:
    """Each word of it may begin a command; read to its end from each, 4,000 bytes took 12 s."""
    words = (
        "rm -rf ",
        "xargs ",
        "find . ",
        "$(",
        "`",
        "x ",
        "if ",
        "echo ",
        "<<E\n",
        "&",
        "'",
        "*",
    )
    text = "".join(random.Random(seed).choices(words, k=2_500))
    before = time.process_time()

    verdict = judge(text, CommandRules(), Reach(root=tmp_path)).verdict

    assert time.process_time() - before < 3
    assert verdict in {"ask", "undecided"}


@pytest.mark.parametrize("words", [200, 600])
def test_last_name_of_many_counts_in_a_text_without_structure(words: int) -> None:
    """It may be the home directory."""
    assert asks(f"if x; rm -rf {'a ' * words} ~")
    assert asks(f"$start find {'a ' * words} ~ -delete")
    assert asks(f"$start git push origin {'a ' * words} --force")
    assert asks(f"$X $Y -rf {'a ' * words} ~")


@each_row(
    "script",
    [
        "rm -rf build dist *.egg-info",
        *("git clean -fdx build", "git clean -fd -- build dist", "git clean -ffdX build/x"),
        "rm -rf *.dSYM",
        "rm -rf build/*",
        "rm -rf dist/* .cache",
        'rm -rf "$PWD/build"',
        "rm -rf $(pwd)/build",
        "rm -rf **/__pycache__",
        "rm -rf {build,dist}",
        "BUILD_DIR=build; rm -rf $BUILD_DIR",
        'd=build; rm -rf "$d" && mkdir -p "$d"',
        'd=build && rm -rf "$d/x"',
        'export d=build; rm -rf "$d/x"',
        'd="build"; rm -rf "${d}/x"',
        'tmp=$(mktemp -d); cp a.py "$tmp"; python "$tmp/a.py"; rm -rf "$tmp"',
        'tmp=`mktemp -d /tmp/x.XXXX`; rm -rf "$tmp"',
        'for d in packages/*; do rm -rf "$d/dist"; done',
        "for d in a b; do rm -rf $d/dist; done",
        "cd frontend && rm -rf *.log dist",
        "rm -rf src/*.o",
        "env -C build rm -rf x",
        "source venv/bin/activate && rm -rf *.egg-info",
        "cd packages/core && rm -rf dist && cd ../ui && rm -rf dist",
        "cd packages/core && rm -rf dist && cd - && npm run build",
        "cd packages/core && npm test 2>&1 | tail -3 && cd ../.. && rm -rf dist",
        'ROOT=$(pwd); rm -rf "$ROOT/build"',
        "git push --dry-run --force",
        "git push -n --delete origin x",
        "docker run --rm -v $PWD:/w -w /w node rm -rf node_modules",
        'docker run --rm -v "$PWD":/app --read-only alpine ls',
        "git push -fn",
        "find . -name __pycache__ -print0 | xargs -0 rm -rf",
        "find dist -type f | xargs rm -f",
        "git ls-files --deleted | xargs git rm",
        "fdisk -l",
        "rails destroy model User",
        "rm src/*",
        "RAILS_ENV=test bin/rails db:drop db:create",
        "MIX_ENV=test mix ecto.reset",
        "d=build; rm -rf $d*",
        'mkdir -p t && d=t/x && rm -rf "$d"/*',
        'if true; then d=build; rm -rf "$d"/*; fi',
        'd=(build "dist" src/{a,b} *.o); rm -rf "${d[@]}" && ls',
        "e=x; d=(build # of the compiler\n $e/y); rm -rf ${d[*]} $d",
        'd=(build dist); for x in "${d[@]}"; do rm -rf "$x/a"; done',
        'd=(build); find "${d[@]}" -type f -delete',
        "rm -- -rf $x",
        "find . \\( -name a -o -name b \\) -print0 2>/dev/null | xargs -0 -r rm -rf",
    ],
)
def test_deleting_what_is_known_to_lie_in_the_workspace_is_left_to_the_rules(script: str) -> None:
    assert not asks(script)


@each_row(
    "script",
    [
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf */*",
        "rm -rf **/*",
        "rm -rf /*",
        "rm -rf .*",
        "rm -rf .g*",
        "rm -rf .[^.]*",
        "rm -rf .git/*",
        "rm -rf .git/obj*",
        "rm -rf ../*.x",
        "rm -rf ~/*.x",
        'rm -rf "$d"',
        'rm -rf "$d/x"; d=build',
        "d=/etc; rm -rf $d",
        "d=build; d=/; rm -rf $d/x",
        '(d=build); rm -rf "$d/x"',
        'false && d=build; rm -rf "$d/x"',
        'd=build & rm -rf "$d/x"',
        't=$(mktemp -d); rm -rf "$t"/*',
        't=$(mktemp -d); rm -rf "$t/x"',
        "read d; d=build; rm -rf $d",
        'd=build rm -rf "$d"',
        "d='*'; rm -rf $d",
        "d=''; rm -rf \"$d/x\"",
        "d=; rm -rf $d/x",
        "for d in build /; do rm -rf $d; done",
        "for d in *; do rm -rf $d; done",
        'for d in b; do :; done; rm -rf "$d/x"; rm -rf ..',
        'cd .. && rm -rf "$PWD/x"',
        "d=..; rm -rf $d/x",
        "d=build; rm -rf $d $e",
        "d='~'; eval rm -rf $d",
        'f() { d=build; }; rm -rf "$d/x"',
        'if x; then d=build; fi; rm -rf "$d/x"',
        'd=build; d=$e; rm -rf "$d"',
        "rm -rf {build,/etc}",
        "rm -rf build/../*",
        "rm -rf {.git,b}",
        "rm -rf {..,b}",
        'd=build; rm -rf "$d/../.."',
        "d=x; rm -rf $d; git reset --hard",
        "d=build; sh -c 'rm -rf \"$d/x\"'",
        'rm -rf "$(pwd)/.."',
        "PWD=/; rm -rf $PWD/x",
        'd=(a /); rm -rf "${d[1]}"',
        'd=x; unset d; rm -rf "$d/etc"',
        "d=x; unset -v d; rm -rf $d/etc",
        "env -C ~ rm -rf docs",
        "env --chdir / rm -rf home",
        "sudo -D / rm -rf home",
        "chroot / rm -rf home",
        "systemd-run -p WorkingDirectory=/ rm -rf home",
        "nsenter -t 1 -m --wd=/ rm -rf home",
        "rm -rf .GIT",
        "IFS=x; d=bx/homex; rm -rf $d",
        "d=build; eval d=/home; rm -rf $d",
        "d=build; . ./e; rm -rf $d",
        "d=build; source e; rm -rf $d",
        "d=build; let d=1; rm -rf $d",
        "d=build; exec {d}>x; rm -rf $d",
        "d=build; d+=/../..; rm -rf $d",
        "d='build ..'; rm -rf $d",
        "d=build; : ${d:=/}; rm -rf $d",
        "d=build; rm -rf ${d:0:0}/home",
        "d=build; declare -n r=d; r=/home; rm -rf $d",
        "cd a && cd ../.. && rm -rf x",
        "cd a && cd .. && cd .. && rm -rf x",
        "cd a; cd .. && rm -rf x",
        "! cd a && cd .. && rm -rf x",
        "cd a | cat && cd .. && rm -rf x",
        "cd -P .. && rm -rf x",
        "cd a && cd - && cd .. && rm -rf x",
        "(cd a) && cd .. && rm -rf x",
        "cd a || cd .. && rm -rf x",
        "cd $a && cd .. && rm -rf x",
        "cd a && cd -P ../.. && rm -rf x",
        "cd && cd x && rm -rf y",
        "cd a && cd && cd x && rm -rf y",
        "cd /tmp/x && cd ../.. && rm -rf x",
        "cd a && f && cd b/../../.. && rm -rf y",
        "cd a & cd .. && rm -rf x",
        "cd a* && cd .. && rm -rf x",
        'd=build; d=; rm -rf "$d"/*',
        'd=build; unset "d"; rm -rf $d/*',
        "d=build; builtin unset d; rm -rf $d/*",
        'd=build; f() { local d; rm -rf "$d"/*; }; f',
        "d=build; declare -n r; r=d; r=/; rm -rf $d/*",
        "f() { local -n r=$1; r=/; }; d=build; f d; rm -rf $d/*",
        "d=build; v=d; read $v <<< /; rm -rf $d/",
        "d=build; LC_ALL=C read d <<< /; rm -rf $d/",
        "d=build; read -ad <<< /; rm -rf $d/",
        "d=build; printf -vd %s /; rm -rf $d/",
        'd=build; export "d=/"; rm -rf $d/',
        "d=build; e''val d=/; rm -rf $d/",
        "d=build; trap 'd=/' DEBUG; rm -rf $d/",
        "d=build; : ${d[0]:=/}; rm -rf $d/",
        'false && HOME=build; rm -rf "$HOME"',
        '[ -z "$OUT" ] && OUT=build; rm -rf "$OUT"',
        "[ -d b ] && d=b; find $d -delete",
        't=$(mktemp -d); o=$t/out; rm -rf "$o"',
        "t=$(mktemp -d); y=$t; rm -rf $y/*",
        "t=$(mktemp -d); find $t -delete",
        "d=build; d=$(mktemp -d); rm -rf $d/*",
        "_=build; echo /; rm -rf $_",
        'mktemp() { echo /; }; t=$(mktemp); rm -rf "$t"',
        "pwd() { echo /; }; rm -rf $(pwd)/src",
        "PWD=build; cd .; rm -rf $PWD",
        "pushd a && popd && cd .. && rm -rf x",
        "pushd a && pushd +1 && cd .. && rm -rf x",
        "cd a && command popd && cd .. && rm -rf x",
        "cd a 2>/dev/null | cat && cd .. && rm -rf x",
        "cd a &2>/dev/null && cd .. && rm -rf x",
        "cd a && OLDPWD=/etc && cd - && rm -rf x",
        "set -P && cd link && cd .. && rm -rf x",
        "shopt -s dotglob; rm -rf *git",
        "rm -rf .GIT/*",
        "find b -print0 | xargs -0 -a list rm -rf",
        "find b -printf '/\\0' -print0 | xargs -0 rm -rf",
        "find b -print0 | xargs -0 rm -rf <<< /",
        "find -files0-from list -print0 | xargs -0 rm -rf",
        "printf '/\\0' | cat - <(find b -print0) | xargs -0 rm -rf",
        "find() { printf '/\\0'; }; find b -print0 | xargs -0 rm -rf",
        "find b; cat list | xargs git rm -rf",
        "find b -type f; cat list | xargs rm -f",
        "git push --force -n --no-dry",
        "cd ..; find $PWD/src -type f | xargs rm -f",
        "find {src,..} -type f | xargs rm -f",
        "d=build; rm -rf ${d[3]}/*",
        "git push -o --dry-run --force",
        "git push --force -- origin --dry-run",
        "git push --dry-run --no-dry-run --force",
        "git push --force origin n",
        "git push --push-option -n --force",
        "git push -fo -n",
        "env -S'rm -rf /home'",
        "env --split-string='rm -rf /home'",
        'R=$(false); rm -rf "$R/x"',
        'R=$(cat f); rm -rf "$R/x"',
        'cd .. ; R=$(pwd); rm -rf "$R/x"',
        "cd - && rm -rf x",
        'find build -name b -print0 | xargs -0 rm -rf && rm -rf "${d}"/b',
        'rm -rf "$e"/b | find a -name b -print0 | xargs -0 rm -rf',
        "cd $d && d=packages/x | rm -rf *.log",
        "find . -print0 | xargs -0 rm -rf",
        "cp -r a b; find . -name __pycache__ | xargs rm -rf",
        "find / -name x -print0 | xargs -0 rm -rf",
        "find .. -name x -print0 | xargs -0 rm -rf",
        "find . -name x -print0 | cat a | xargs -0 rm -rf",
        "find . -name x -print0 | xargs -0 rm -rf /etc",
        "find . -name x -print0 | xargs -0 -I{} rm -rf {}/..",
        "find . -name x -print0 | xargs -0 -I{} sh -c 'rm -rf {}/..'",
        "find . -name x -print0; cat l | xargs -0 rm -rf",
        "find . -name x -print0 | xargs -0 rm -rf; cat l | xargs -0 rm -rf",
        "find . -name x -print0 -o -print0 | xargs -0 rm -rf",
        "find -L build -type f | xargs rm -f",
        'find "$d" -type f | xargs rm -f',
        "git ls-files | xargs git rm -f",
        "git ls-files | xargs git rm -rf",
        "git ls-files | xargs rm",
        "sgdisk -l b.gpt /dev/sda",
        "fdisk /dev/sda",
        "parted -l /dev/sda mklabel gpt",
        "find .git -type f | xargs rm -f",
        "RAILS_ENV=test rails db:drop && rails db:drop",
        "RAILS_ENV=test rails db:migrate; rails db:reset",
        "RAILS_ENV=test DATABASE_URL=x rails db:drop",
        "DATABASE_URL=x RAILS_ENV=test rails db:drop",
        "RAILS_ENV=testing rails db:drop",
        "RAILS_ENV=test rails runner 'User.delete_all'",
        "RAILS_ENV=test rails db:drop; rm -rf ~",
        "RAILS_ENV=test rails db:drop RAILS_ENV=production",
        'find src -type f | xargs rm -f; find "$t" | xargs rm -f',
        'd=(build /); rm -rf "${d[@]}"',
        'd=(a ..); for x in "${d[@]}"; do rm -rf $x; done',
        'd=(a /); rm -rf "x/${d[@]}"',
        'd=(a ..); for x in "${d[@]}/x"; do rm -rf $x; done',
        'd=(x ..); rm -rf "${d[*]}"',
        'd=(push --force); git "${d[@]}"',
        'd=(-n); d=(push --force); git "${d[@]}"',
        'd=(-n); d=(); git push --force "${d[@]}"',
        'x=-n; x=a; d=("$x"); git push --force "${d[@]}"',
        'd=(-o -o --dry-run); git push --force "${d[@]}"',
        'd=("" a); rm -rf "${d[@]}/x"',
        'd=("$e" a); rm -rf "${d[@]}"',
        'd=(a); d[1]=/; rm -rf "${d[@]}"',
        'd=(a); d+=(/); rm -rf "${d[@]}"',
        'd=([1]=x); rm -rf "$d"/y',
        'd=(a $(ls)); rm -rf "${d[@]}"',
        'd=("a /"); rm -rf ${d[@]}',
        'd=("a /"); s="${d[@]}"; rm -rf $s',
        'd=(*); rm -rf "${d[@]}"',
        'd=(a); rm -rf "${d[@]:1}/x"',
        'd=(a); rm -rf "${d[@]/a//}"',
        '(d=(a)); rm -rf "${d[@]}"',
        'rm -rf "${d[@]}"; d=(a)',
        "d=(a ..); cd b && cd ${d[@]} && rm -rf y",
        "cd b && cd {a,..} && rm -rf y",
        "rm -r -- -x/../..",
        'CDPATH=.. cd "" && rm -rf src/*',
        "CDPATH=..; cd home && rm -rf src",
    ],
)
def test_deleting_what_is_not_known_asks(script: str) -> None:
    """Threat 19: a variable may be empty, and a pattern stand for everything."""
    assert asks(script)


@each_row(
    ("script", "is_asked"),
    [
        ("rm -rf /tmp/x && mkdir /tmp/x", False),
        ("cd /tmp && rm -rf x", False),
        ("cd /tmp && rm -rf x && mkdir x && cd x && rm -rf y && git init", False),
        # A link there may lead back to all of the workspace, made by an earlier command, too.
        *((f"cd /tmp/a && {each}rm -rf *", True) for each in ("", "cd b && ", "./x && cd b && ")),
        *((f"cd /tmp && {each} && cd w && rm -rf ./*", True) for each in ("unzip a", "tar xf a")),
        ("cd /tmp/a && cd b && rm -rf x", False),
        ('ln -s "$PWD" /tmp/w && cd /tmp/w && rm -rf *', True),
        ("ln -s /nowhere /tmp/w && cd /tmp && cd w && rm -rf *", True),
        ("ln -s ~/a /tmp/w && cd /tmp && cd w && rm -rf src", True),
        ("cd /tmp && rm -rf *", True),
        ("cd /tmp/a && cd .. && rm -rf *", True),
        ("cd /tmp/a; rm -rf *", True),
        ("cd /tmp/a && cd ../../srv && rm -rf x", True),
        ("cd /tmp/a && cd /srv && cd b && rm -rf *", True),
        ("cd /tmp/a && cd - && rm -rf *", True),
        ("cd /nowhere && rm -rf *", True),
        ("rm -rf /tmp/../x", True),
        ("cd /tmp/a && rm -rf ../../x", True),
        ("cd /tmp && cd .. && rm -rf x", True),
        ("rm -rf /tmpx", True),
        ("rm -rf /tmp/x /x", True),
        ("rm -rf /tmp/x; git clean -f", True),
    ],
)
def test_deleting_in_the_sandboxs_own_tmp_is_left_to_the_rules(
    script: str, *, is_asked: bool
) -> None:
    """Threat 19: it asks without such a sandbox, or where a folder of the workspace lies there."""
    reach = Reach(root=Path("/nowhere"), has_own_temporary=True)
    of_workspace = replace(reach, extra_dirs=(Path("/tmp/other"),))

    assert (judge(script, CommandRules(), reach).verdict == "ask") is is_asked
    assert judge(script, CommandRules(), of_workspace).verdict == "ask"
    assert asks(script)


@each_row(
    ("script", "is_asked"),
    [
        ("hg update --clean", True),
        ("hg update -C", True),
        ("hg revert --all --no-backup", True),
        ("hg purge --all", True),
        ("svn revert -R .", True),
        ("svn cleanup --remove-unversioned", True),
        ("p4 revert //...", True),
        ("git reset --merge HEAD~3", True),
        ("docker rm -fv $(docker ps -aq)", True),
        ("docker compose rm -fsv", True),
        ("bunx drizzle-kit push --force", True),
        ("npx convex import --replace-all x.zip", True),
        ("limactl factory-reset default", True),
        ("trash-empty", True),
        *(("gio trash --empty", True), ("gio trash x", False), ("trash-rm '*'", True)),
        *(("npx rimraf '*'", True), ("del-cli '**/*'", True), ("npx rimraf 'dist/*'", False)),
        *(("init 0", True), ("telinit 6", True), ("npm init 0", False)),
        *(("chown -R me /", True), ("sudo chmod -R 777 /usr", True), ("chgrp -R a ~", True)),
        *(
            ("chmod -R 755 .", False),
            ("chown -R me build", False),
            ("chmod 755 /usr/x", False),
            ("chown -R me /workspace", False),
        ),
        *(("chown -R me $HOME", True), ('sudo chown -R "$USER" "${HOME}/"', True)),
        *(("chmod -R 777 /*", True), ("chmod -R 777 /etc/.", True), ("chmod -R 700 /dev", True)),
        *(("chown -R me $HOME/x", False), ("chmod -R 755 *", False), ("chmod 755 $HOME", False)),
        ("emacs --batch --eval '(delete-directory \"/srv\" t)'", True),
        *(("python3 -c \"import shutil; shutil.rmtree('.')\"", True),),
        *(
            ("perl -MFile::Path -e 'rmtree \".\"'", True),
            ("node -e \"fs.rmSync('.', {recursive:true})\"", True),
        ),
        *(('php -r \'rmtree("a"."b");\'', False),),
        *(("podman pod rm -af", True), ("podman rm --all", True), ("podman pod rm -f web", False)),
        *(("fdupes -rdN .", True), ("jdupes --delete x", True), ("fdupes -r .", False)),
        *(("rdfind -deleteduplicates true x", True), ("rdfind -dryrun true x", False)),
        *(("git symbolic-ref -d HEAD", True), ("git symbolic-ref --short HEAD", False)),
        ("deno eval \"Deno.removeSync('/home/u', {recursive: true})\"", True),
        ("node -e \"require('fs-extra').emptyDirSync('/srv/x')\"", True),
        ("Rscript -e 'unlink(\"~\", recursive=TRUE)'", True),
        ("Rscript -e 'unlink(path.expand(\"~\"), recursive=TRUE)'", True),
        ("hg update", False),
        ("hg revert a.py", False),
        ("svn update", False),
        ("git reset --mixed HEAD~1", False),
        ("docker rm -f web", False),
        ("docker run --rm -v $PWD:/x alpine ls", False),
        ("docker compose rm -f", False),
        ("npx drizzle-kit push", False),
        ("node -e \"require('fs-extra').emptyDirSync('dist')\"", False),
        ("python -c \"os.system('git status'); os.system('rm -rf build')\"", False),
        ("python -c \"subprocess.run(['git', '-C', d, 'rm', '-f', 'x'])\"", True),
        ("python -c \"import os; os.remove('/tmp/x')\"", False),
        ("python -c \"import os; os.remove('/etc/x')\"", True),
        ("python -c \"os.unlink(os.path.expanduser('~/x'))\"", True),
        ("python -c \"Path('/srv/x').unlink(missing_ok=True)\"", True),
        ("python -c \"Path('~/x').expanduser().unlink()\"", True),
        ("python -c \"print(Path('/srv/x')); Path('x').unlink()\"", False),
        ("node -e \"fs.unlinkSync('/srv/x')\"", True),
        ("perl -e 'unlink \"/srv/x\"'", True),
        ("ruby -e 'File.delete(\"/srv/x\")'", True),
        ("python -c \"os.remove('x'); open('/srv/x')\"", False),
        ("cat > x.py <<'E'\nimport os\nos.remove('/srv/x')\nE\npython x.py", True),
        ("Rscript -e 'unlink(\"build\", recursive=TRUE)'", False),
    ],
)
def test_discarding_work_volumes_or_folders_by_other_programs_asks(
    script: str, *, is_asked: bool
) -> None:
    """Threat 19: other systems than git, containers with their volumes, code of other languages."""
    assert asks(script) is is_asked


@each_row(
    "script",
    [
        "for d in NAMES; do rm -rf $d; done; " + "echo x; " * 500,
        "d=(NAMES);" + 'rm -rf "${d[@]}";' * 2_000,
    ],
)
def test_many_values_of_a_variable_are_looked_at_in_a_moment(script: str) -> None:
    """Each value is another script to read."""
    names = " ".join(f"a{number}" for number in range(190))
    before = time.process_time()

    asks(script.replace("NAMES", names))

    assert time.process_time() - before < 3


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        *(
            (f"rm -rf {each}", True)
            for each in ("out/*", "out/", "out/sub", "*/sub", "a/up/out/s*")
        ),
        *(("cd out && rm -rf sub", True), ("cd a && rm -rf up/out/sub", True)),
        *(("cd a && cd away && rm -rf sub", True), ("cd a; env -C away rm -rf sub", True)),
        *(("env -C out rm -rf sub", True), ("sudo --chdir=out rm -rf sub", True)),
        *(("rm -rf {root}//out/sub", True), ("rm -rf /.{root}/out/*", True)),
        *(("rm -rf {root}/out", False), ("rm -rf {root}//b/sub", False)),
        *(("find out/ -delete", True), ("find -O3 -P out/ -type f -delete", True)),
        (f"cd {'x' * 300} && rm -rf b", False),
        ("find . -path '*/a/*/b/*/c' -print; rm -rf b", False),
        ("d=out; rm -rf $d/*", True),
        *(
            (f"rm -rf {each}", False)
            for each in ("out", "a/up/b", "*/none", "b/*", "out/none", "b/")
        ),
        *(("cd b && rm -rf sub", False), ("find out -delete", False), ("rm out", False)),
        ("rm -rf */*/*/x", True),
        *(("find out/ | wc -l; rm -rf b", False), ("find out/ -exec ls {} +; rm -rf b", True)),
        *(("find out/ | while read f; do x; done; rm -rf b", True),),
        # Moved by an option, by a pattern, or by a value that is not known.
        *(("mv -t y out; rm -rf y/out/sub", True), ("mv out* y; rm -rf y/sub", True)),
        *(("mkdir y; mv out* y; rm -rf y/out/sub", True), ("cp -a $x y; rm -r y/sub", True)),
        *(("ln -s -t y /srv; rm -rf y/srv/x", True), ("ln -t y -s /srv; rm -rf y/srv/x", True)),
        *(("mv --target-directory=y out; rm -rf y/out/sub", True),),
        *(("rm -rf a/up/*", True), ("rm -rf a/up/", True), ("rm -rf a/up/.git", True)),
        *(("mv b* y; rm -rf y/sub", False), ("mv -t y b; rm -rf y/b/sub", False)),
        *(("mv $x y; rm -rf y/none", False), ("mv out* y; rm -rf y", False)),
        *(("cp -R b/* c/$x; rm -rf b/", False), ("mv b/* c/$x; rm -rf b/ *.zip", False)),
    ],
)
def test_deleting_through_a_link_that_leads_outside_asks(
    script: str, *, expected: bool, tmp_path: Path
) -> None:
    """Threat 19: `rm -r` stops at no link in the middle or before a / at the end of a name."""
    for folder in ("outside/sub", "root/a", "root/b/sub"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root/out").symlink_to("../outside")
    (tmp_path / "root/a/up").symlink_to("..")
    (tmp_path / "root/a/away").symlink_to("../../outside")
    script = script.replace("{root}", f"{tmp_path}/root")
    rules = CommandRules(allow=[command_rule("*")])

    verdict = judge(script, rules, Reach(root=tmp_path / "root")).verdict

    assert (verdict == "ask") is expected


@each_row(
    ("script", "expected"),
    [
        *(("ln -s / x; rm -rf x/*", True), ("ln -s /srv x && rm -rf ./x/", True)),
        *(("ln -sfn .. b/x; rm -rf b/x/y", False), ("ln -sfn ../.. b/x; rm -rf b/x/y", True)),
        *(("ln -s /srv; rm -rf srv/a", True), ("ln -s /srv b; rm -rf b/srv/a", True)),
        *(("ln -s ~/a x; cd x; rm -rf b", True), ("ln -s /srv {root}/x; rm -rf x/a", True)),
        *(("ln -s /srv x; rm -rf x", False), ("ln -s /srv x; rm -rf xy/a", False)),
        *(("ln -s b x; rm -rf x/a", False), ("ln -s {root}/b x; rm -rf {root}/x/a", False)),
        *(("ln -s . x && rm -rf x/", True), ("ln -s {root} x; rm -rf x/*", True)),
        *(("ln -s .. b/x; rm -rf b/x/.git", True), ("ln -s . x; rm -rf x/*.o", False)),
        *(("ln -s . x; rm -rf x", False), ("ln -s b x; rm -rf x/", False)),
        *(("ln -s . .x; rm -rf .x/*", True), ("ln -s . x; mv x y; rm -rf y/*", True)),
        *(("ln -s /srv x; rm -rf x/a; ln -sfn . x", True), ("ln -s b y; rm -rf ..y/*", False)),
    ],
)
def test_deleting_behind_a_link_that_the_script_makes_asks(
    script: str, *, expected: bool, tmp_path: Path
) -> None:
    """Threat 19: before it runs there is no link to follow."""
    script = script.replace("{root}", str(tmp_path))
    rules = CommandRules(allow=[command_rule("*")])

    verdict = judge(script, rules, Reach(root=tmp_path)).verdict

    assert (verdict == "ask") is expected


def test_pattern_of_many_folders_asks_only_if_they_hold_such_a_name(tmp_path: Path) -> None:
    """A name of each folder counted, whether it is there or not: 2,000 packages asked."""
    for number in range(2_100):
        (tmp_path / f"a/{number}").mkdir(parents=True)
    (tmp_path / "a/7/x").mkdir()
    rules = CommandRules(allow=[command_rule("*")])

    assert judge("rm -rf */*/x", rules, Reach(root=tmp_path)).verdict == "allow"


_WORDS = " ".join(map(str, range(30)))


@each_row(
    ("script", "expected"),
    [
        *(("${x:-rm} -rf /", True), ("$x -fr ~", True), ('"$(which rm)" -rf ..', True)),
        *(("$x -rf build", False), ("$x -r /srv", False), ("${x:-rm} -r build", False)),
        *(("${x:-rm} -r /srv", True), ("rm ${x:--rf} /", True), ("x=(-r /); rm ${x[@]}", True)),
        *(("x=(rm -rf); x+=(/); ${x[@]}", True), ("x=rm; x+=' -rf /'; $x", True)),
        *(("x=(push); x+=(--force); git ${x[@]}", True), ("x=(push); git ${x[@]}", False)),
        *(('x=git; x="$x push -f"; $x', True), ("x=(-rf $y); rm ${x[@]}", True)),
        *(('bash -c "rm -rf $x"', True), ("sh -c \"rm -rf '$x'\"", True)),
        ('sudo sh -c "cd a && rm -rf $HOME/b"', True),
        *(('trap "rm -rf $x" EXIT', True), ('eval "rm -rf \\"$x\\""', True)),
        *(('echo "rm -rf $x" | sh', True), ('curl "https://a/$x" | sh', False)),
        *(('bash -c "echo $x"', False), ('echo "rm -rf $x"', False), ("sh -c 'ls' \"$x\"", False)),
        *(("x=push; git $x --force", True), ("git ${x:-push} -f", True)),
        *(('x=reset; git "$x" --hard', True), ("x=status; git $x", False)),
        *(("x=a; x+=b; echo $x", False), ("x=(-m pytest); python3 ${x[@]}", False)),
        *(('$x -framerate 30 "$y"', False), ('x=(commit -m "push -f"); git "${x[@]}"', False)),
        *(('x=("-rf /"); rm ${x[@]}', True), ('x=(sh -c "rm -rf /"); "${x[@]}"', True)),
        *(('x=build; sh -c "rm -rf $x"', False), ('x=/; sh -c "rm -rf $x"', True)),
        (f"a b {_WORDS}; b {_WORDS} 'rm -rf /'", True),
        *(('x=build; sh -c "cd $x && rm -rf ../.."', True), ('x="a /"; rm -rf $x', True)),
        *(("x='rm -rf *'; $x a", True), ("x='rm -f *.pyc'; $x a", False)),
    ],
)
def test_deleting_by_words_that_are_put_together_asks(script: str, *, expected: bool) -> None:
    """Threat 19: by a default, a list or `+=`, as a subcommand; an unknown program may be rm."""
    assert asks(script) is expected


def test_variable_that_grows_by_itself_is_read_in_a_moment() -> None:
    """Each line doubles it."""
    before = time.process_time()

    asks(f"x=ab; {'x=$x$x; ' * 60} $x")

    assert time.process_time() - before < 3


_IN_TMP = "t=$(mktemp -d); trap "


@each_row(
    ("script", "expected"),
    [
        *((f"{_IN_TMP} 'rm -rf \"$t\"' EXIT; cp a $t", False),),
        *((f"{_IN_TMP} 'rm -rf $t' EXIT INT", False), (f'{_IN_TMP} "rm -rf $t" 0', False)),
        ("t=$(mktemp -d); end() { rm -rf $t; }; trap end EXIT", False),
        *((f"{_IN_TMP} 'rm -rf $t' EXIT; t=/", True), (f"{_IN_TMP} 'rm -rf $t/x' EXIT", True)),
        *((f"{_IN_TMP} 'rm -rf $t /' EXIT", True), (f"{_IN_TMP} 't=/' USR1; rm -rf $t", True)),
        *((f"{_IN_TMP} 't=/' INT; rm -rf $t", True), (f"{_IN_TMP} 'rm -rf $t' DEBUG", True)),
        *((f'{_IN_TMP} "rm -rf \\"$t\\"" EXIT', False), (f'{_IN_TMP} "rm -rf \\"$t\\" /" 0', True)),
        *((f"{_IN_TMP} \"rm -rf '$t'\" EXIT", False), (f"{_IN_TMP} '}}; rm -rf $t' EXIT", True)),
        ("trap 'rm -rf $t' EXIT; t=$(mktemp -d)", True),
        (f"{_IN_TMP} 'rm -rf $t' EXIT; git push --force", True),
    ],
)
def test_folder_of_mktemp_may_be_deleted_by_a_trap(script: str, *, expected: bool) -> None:
    """Most scripts that make one do so; what runs at the end sees any value of a variable."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("x=rm; $x -rf /", True), ("x='rm -rf /'; $x", True), ("x='-rf /'; rm $x", True)),
        *(("x='sudo rm'; $x -rf ~", True), ('x=rm; "$x" -rf ..', True)),
        *(('set -- rm -rf /; "$@"', True), ("set rm -rf /; $@", True)),
        ('set -- -rf /; rm "$@"', True),
        *(('set -- rm -rf /; sudo -u bob "$@"', True), ("x='rm -r ~'; nice -n 5 $x", True)),
        *(('set -- rm -rf /; timeout -s KILL 5 "$@"', True), ("x=ls; sudo -u bob $x", False)),
        *(("x=rm; $x -rf build", False), ("x='rm -rf build'; $x", False)),
        *(("x='fix; rm -rf /'; git commit -m \"$x\"", False), ("x='rm -rf /'; echo $x", False)),
        *(('set -- a b; ls "$@"', False), ("set -euo pipefail; rm -r build", False)),
        *(("sh -c 'x=\"rm -rf /\"; $x'", True), ("bash -c 'set -- rm -rf ~; \"$@\"'", True)),
        *(("eval 'x=\"rm -rf /\"; $x'", True), ("sh -c \"x='git reset --hard'; \\$x\"", True)),
        *(("x='rm -rf /' sh -c '$x'", True), ("export x=reset; bash -c 'git $x --hard'", True)),
        ("bash <<'E'\nx='git push -f'; $x\nE", True),
        ('bash -c "sh -c \'x=\\"git push -f\\"; \\$x\'"', True),
        *(("sh -c 'x=\"rm -rf build\"; $x'", False), ("bash -c 'set -- a; ls \"$@\"'", False)),
        ('bash -c \'x="fix; rm -rf /"; git commit -m "$x"\'', False),
        *(("echo cm0gLXJmIC8K | base64 -d | sh", True), ("sh <<< 726d; xxd -r", False)),
        *(("base64 -d <<< Z2l0IHJlc2V0IC0taGFyZAo= | bash", True), ("base64 -d x | sh", False)),
        ("echo 726d202d7266202f0a | xxd -r -p | sh", True),
    ],
)
def test_deleting_by_words_of_a_variable_asks(script: str, *, expected: bool) -> None:
    """Threat 19: bash splits the value of `$x` into the program and its options."""
    assert asks(script) is expected


@each_row(
    "script",
    [
        "make -f <(printf 'a:\\n\\trm -rf /\\n')",
        "make -f - <<'E'\na:\n\trm -rf /\nE",
        "X='!rm -rf ~' git --config-env alias.x=X x",
        "X='rm -rf ~' git --config-env=core.pager=X log",
    ],
)
def test_deleting_by_what_make_or_git_is_handed_asks(script: str) -> None:
    """Threat 19: recipes of a process or a here-document, and settings in a variable."""
    assert asks(script)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("find . -name '*.py' -exec sed -i s/a/b/ {} +", False),
        ("mkdir -p build && cd build && cmake .. && make", False),
        ("cd build && cmake .. -DX=1 2>&1 | tail -5", False),
        ("cd a/b && node ../../x.js", False),
        ("cd build && cmake ../..", True),
        ("cd build; cp x ..", True),
        ("cp x .. && cd build && ls", True),
        ("cd build && make; cp x ..", True),
        ("(cd build && make) && cp x ..", True),
        ("cd build || cp x ..", True),
        ("cd build && make & cp x ..", True),
        ("true | cd build && cp x ..", True),
        ("echo cd build && cp x ..", True),
        ('echo " && cd build && " && cp x ..', True),
        ('cd build && c"d" .. && cp x ..', True),
        ("c=cd&& cd build && $c .. && cp x ..", True),
        ("cd build &2>x && cp x ..", True),
        ("cd $x && cp a ..", True),
        ("cd build && cd .. && cp a ..", True),
        ("cd link && cp a ..", True),
        ("find . -name x -exec cp {} /srv/x ';'", True),
        ("find . -name x; $y +", True),
        ("find . -exec sh -c '$0 +' {} ';'", True),
    ],
)
def test_what_stays_inside_is_not_reserved_for_a_person(
    script: str, *, expected: bool, tmp_path: Path
) -> None:
    """Threat 26: a `..` counts from the folder that a command surely runs in."""
    (tmp_path / "link").symlink_to("/etc/ssl")

    assert is_reserved(script, Reach(root=tmp_path.resolve())) is expected


def _moves_by_code(path: str) -> tuple[str, ...]:
    return (
        f"python3 -c \"import shutil; shutil.move('{path}', 'g')\"",
        f"python3 - <<'E'\nimport os\nos.rename('{path}', 'g')\nE",
        f"node -e \"fs.renameSync('{path}', 'g')\"",
        f"ruby -e \"FileUtils.mv('{path}', 'g')\"",
        f"perl -e \"rename '{path}', 'g'\"",
    )


@each_row(
    ("script", "expected"),
    [
        *(("mv .git /tmp/x", True), ("mv -t /srv ./.git/", True), ("mv -- .git ~", True)),
        *(("mv sub/.git ..", True), ("sudo mv .git/objects /srv", True), ("mv .GIT $x", True)),
        *(("T=$(mktemp -d); mv .git $T/a", True), ("mv $PWD/.git /tmp", True)),
        *(("mv .??* /tmp/x", True), ("mv {.git,a} /srv", True), ("mv `pwd` /srv", True)),
        *(("mv .git a; rm -rf a", True), ("mkdir a; mv .git a/; mv a b; rm -rf ./b", True)),
        *(("mv .git a; mv a /srv", True), ("mv .git a; find a -delete", True)),
        *(("mv .git a/b; git clean -ffd a", True), ("mv .git a; rm -r a/objects", True)),
        *(("mv .git .git.bak && git init", False), ("mv .git a; rm -rf build", False)),
        *(("git clone x t && mv t/.git . && rm -rf t", False), ("mv .github /srv", False)),
        *(("mv .git{,.bak}", False), ("mv *.log /srv", False), ("mv src /srv", False)),
        *(("mv .git{,.bak} && rm -rf .git.bak", True), ("mv {x,.git} a; rm -rf a", True)),
        *(("ls -d .git | xargs mv -t /srv", True), ("ls *.log | xargs mv -t /srv", False)),
        ("find . -name .git | xargs -I{} mv {} /srv", True),
        *((f"python -c \"shutil.move('{x}', '/srv')\"", x == ".git") for x in ("a", ".git")),
        ("python -c \"Path('.git').rename('/srv/x')\"", True),
        ("node -e \"fs.renameSync('.git', process.argv[1])\" /srv", True),
        ("python -c \"os.rename('.git', '.git.bak')\"", False),
        ("python -c \"print('a.git'.replace('.git', '/srv'))\"", False),
        *(("mv $x /srv", False), ('mv "$d/.git" "$PWD/.git"', False), ("mv a.git /srv", False)),
        *((f"{x}; rm -rf g", "git'" in x) for x in _moves_by_code(".git")),
        *((f"{x}; rm -rf g", False) for x in _moves_by_code("a")),
        *((f"{x}; rm -rf build", False) for x in _moves_by_code(".git")),
        ("python -c \"shutil.move('.git', 'g'); shutil.rmtree('g')\"", True),
        *(("echo .git | xargs -I% mv % g && rm -rf g", True), ("D=.git; mv $D g; rm -r g", True)),
        *(("find . -name .git -exec mv {} g \\; && rm -r g", True), ("rm -r g; mv .git g", False)),
        *(("for d in .git; do mv $d g; done; rm -r g", True), ("ls -d .git; rm -r g", False)),
        ("ls -d ./.git | xargs -I{} mv {} g; find g -delete", True),
        ("find . -name .git -exec mv {} g ';' && rm -rf build", False),
        ("echo .git | xargs -I% mv % g && rm -rf build", False),
        ("find . -name '*.o' -not -path './.git/*' | xargs -I{} mv {} g; rm -rf g", False),
        *(("echo 'mv .git g' | sh; rm -rf g", True), ("ls *.o | xargs -I% mv % g; rm -r g", False)),
        ("cat > x.sh <<'E'\nmv .git g\nE\nsh x.sh; rm -rf g", True),
    ],
)
def test_moving_history_to_where_it_may_be_lost_asks(script: str, *, expected: bool) -> None:
    """Threat 19: as `rm -rf .git` does; within the workspace it can be moved back."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(('git checkout -- "$f"', True), ("git checkout HEAD -- $f", True)),
        ("for f in $(git diff --name-only); do git checkout -- $f; done", True),
        ("git diff --name-only | xargs git checkout --", True),
        *(("git checkout $a $b", True), ("git checkout -b $a $b", False)),
        *(("git checkout $a", False), ("git checkout --", False), ("git checkout -q $a", False)),
        *(("git delete-branch x", True), ("git obliterate x", True)),
    ],
)
def test_checking_unknown_files_out_asks(script: str, *, expected: bool) -> None:
    """Threat 19: as the files that the command names."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("rm -rf !(keep)", True), ("shopt -s extglob; rm -- !(a|b)", True)),
        *(
            ("rm -f x !(keep).c", True),
            ("rm a && ! (b)", False),
            ("if ! (rm b); then c; fi", False),
        ),
        *(("setfacl -Rb /", True), ("chattr -R +i ~", True), ("chattr +i x", False)),
        *(("gdisk -l /dev/sda", False), ("gdisk /dev/sda", True), ("bcachefs format x", True)),
        *(("fclones group . | fclones remove", True), ("fclones group .", False)),
        *(("VBoxManage unregistervm x --delete-all", True), ("docker compose rm -sfv", True)),
        *(("bfg --delete-files x", True), ("lxc-destroy x", True)),
    ],
)
def test_deleting_all_but_a_few_and_further_losses_asks(script: str, *, expected: bool) -> None:
    """Threat 19: what a reader of manuals finds."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("git config alias.x 'reset --hard'", True), ("git config alias.st status", False)),
        ("git config --global --add alias.x '!git push -f'", True),
        *(("git config set alias.x 'clean -fdx'", True), ("git config --get alias.x", False)),
        *(("git config core.pager 'rm -rf ~'", True), ("git config core.pager less", False)),
        *(("git config user.name 'rm -rf ~'", False), ("git config a.b c", False)),
    ],
)
def test_setting_a_command_of_git_that_loses_something_asks(script: str, *, expected: bool) -> None:
    """Threat 19: `git x` says nothing of what it runs then."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("rm ~/.bashrc", True), ("rm -f ~u/x", True), ("unlink /etc/hosts", True)),
        *(('rm "$HOME/.netrc"', True), ("rm a -- ${HOME}/b", True), ("sudo rm /usr/bin/x", True)),
        *(("rm /tmp/x /var/tmp/y", False), ("rm /nowhere/x", False), ("rm /tmp/../etc/x", True)),
        *(("rm x.log src/*.o", False), ("rm -f $x", False), ("rm /nowhere/../x", True)),
        *(("echo rm /etc/x", False), ("rm ~", True), ("git rm /etc/x", False)),
        *(("rm ../x", True), ("rm ./a/../../x", True), ("rm src/../a", False)),
        *(("cd build && rm ../x.o", False), ("env -C build rm ../x", False), ("rm $x/../y", False)),
        *(("rm /var/folders/a/b", False), ("rm /private/tmp/a", False)),
        *(("cd /etc && rm hosts", True), ("cd ~ && unlink x", True), ("cd '..' && rm x", True)),
        *(("cd /tmp && rm x", False), ("cd .. && rm nowhere/x", False), ("cd /a && rm $x", False)),
        *(("cd /srv && ls && cd - && rm x", False), ("(cd /srv && ls) && rm x", False)),
        *(("cd /srv && find . -name x -delete", True), ('cd "$d" && rm ../x', False)),
        *(("cd /tmp && find . -name x -delete", False), ("cd /nowhere/a && rm ../x", False)),
        *(("rm -f /run/user/1000/x", False), ("sudo rm -f /var/run/x.pid /run/a/b.sock", False)),
        *(("D=/run/user/0; rm $D/a/x", False), ("cd /run/lock && rm x", False)),
        # Other file systems, and what is no file of a running program.
        *(("rm /run/media/me/disk/x", True), ("rm /run/user/1000/gvfs/smb-share:a/x", True)),
        *(("rm /run/user/1000/../../../etc/x", True), ("rm /run/host/etc/x", True)),
        *(("rm -r /run/user/1000/x", True), ("rm /run/user/1000/*", True)),
        *(("rm ~/run/x.pid", True), ("cd /run/media/me/disk && rm x.pid", True)),
    ],
)
def test_deleting_a_file_of_the_home_or_the_system_asks(script: str, *, expected: bool) -> None:
    """Threat 19: no `/undo` holds it."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("truncate -s 10M new.img", False), ("truncate --size=1G new && cp new b", False)),
        *(("truncate -s 10M old.img", True), ("truncate -s 10M new old.img", True)),
        *(("truncate -s 0 new", True), ("truncate -s 1 $new", True), ("truncate -s 1 n*", True)),
        *(
            ("mv old.img new; truncate -s 1 new", True),
            ("truncate -s 1 new & mv old.img new", True),
        ),
        ("truncate -s 1 new; mv old.img new; tr'u'ncate -s 1 new", True),
        ("truncate -s 1 new; mv old.img new; truncate -s 1 new", True),
        *(("truncate -s 1 $(mv old.img new)new", True), ("truncate -s 1 x/../old.img", True)),
        ("truncate -s 1 new; f=truncate; $f -s 1 old.img", True),
    ],
)
def test_truncate_of_a_new_file_asks_not(script: str, *, expected: bool, tmp_path: Path) -> None:
    """It makes the file, unless something before it may have brought one of that name."""
    (tmp_path / "old.img").touch()

    assert (judge(script, CommandRules(), Reach(root=tmp_path)).verdict == "ask") is expected


@each_row(
    ("script", "expected"),
    [
        *(("rm -f $(ls)", True), ("rm `find . -type f`", True), ("unlink $(ls ./)", True)),
        *(("rm $(git ls-files)", True), ("rm $(git ls-files -o --exclude-standard)", True)),
        *(('for f in $(ls -A); do rm -f "$f"; done', True), ("sh -c 'rm $(ls .)'", True)),
        ("for f in $(find / -type f); do rm $f; done", True),
        *(("rm -f $(ls *.log)", False), ("rm -f $(find . -name '*.log')", False)),
        *(("rm -f $(find build -type f)", False), ("rm $(git ls-files -d)", False)),
        *(("git rm $(git ls-files)", False), ("docker run --rm x $(ls)", False)),
        ("for f in `ls`; do echo $f; done; rm x", False),
        *(("docker rm -f $(docker ps -aq)", True), ("podman rm `podman container ls -a -q`", True)),
        *(("docker rm -f $(docker ps -aqf name=x)", False), ("docker rm $(docker ps -lq)", False)),
    ],
)
def test_deleting_what_a_command_prints_asks(script: str, *, expected: bool) -> None:
    """Threat 19: as behind a pipe to `xargs rm`."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(
            ("ls *.log | xargs rm -f", False),
            ("ls *.log | grep -v keep | xargs rm", False),
            ("ls | grep -v keep | xargs rm", True),
            ("ls | grep -iv keep | xargs rm", True),
            ("git ls-files -o | grep '' | xargs rm", True),
            ("ls | grep -i keep | xargs rm", False),
            ("grep -rl keep . | xargs rm", False),
            ("find . -type f | grep -v py | xargs rm", True),
            ("find . -name '*.pyc' | grep -v venv | xargs rm", False),
            ("ls -t x/*.tar.gz | tail -n +6 | xargs -r rm --", False),
        ),
        *(("ls ?.o 2>/dev/null | xargs rm 2>/dev/null || true", False),),
        *(("ls | xargs rm -f", True), ("ls *.* | xargs rm", True), ("ls *.log x | xargs rm", True)),
        *(("ls ../*.log | xargs rm", True), ("ls ~/*.log | xargs rm", True)),
        *(("ls .*.log | xargs rm", True), ("ls -a *.log | xargs rm", True)),
        *(("ls *.log | xargs rm -r", True), ("ls *.log; ls | xargs rm", True)),
        *(("ls *.log | tail -n +2 list | xargs rm", True), ("ls *.log | xargs -a x rm", True)),
        *(
            ("ls *.log | xargs rm < list", True),
            ("xargs rm < list", True),
            ("xargs rm", True),
            ("ls *.log | sort -o x | xargs rm", True),
        ),
        *(("shopt -s nullglob; ls *.log | xargs rm", True), (". ./x; ls *.log | xargs rm", True)),
        *(("cd / && ls *.log | xargs rm", True), ("alias ls=x; ls *.log | xargs rm", True)),
        *(
            ("ls() { x; }; ls *.log | xargs rm", True),
            ("bash -O nullglob -c 'x;ls *.o|xargs rm'", True),
        ),
        *(("ls *.log | xargs rm\nls | xargs rm", True), ("env -C / ls *.log | xargs rm", True)),
        *(("ls | xargs -I{} sh -c 'rm -f {}'", True), ("ls | xargs -n1 sh -c 'rm \"$0\"'", True)),
        ("ls *.c | xargs -I{} sh -c 'cc {} && rm {}.o'", False),
        *(("grep -r x src; ls | xargs rm", True), ("grep x a | head -5; rm -f $(ls)", True)),
        *(("find . -name '*.o' | sort; ls | xargs rm", True), ("rg x 2>&1; ls | xargs rm", True)),
        ("if grep -q x a 2>/dev/null; then ls | xargs rm; fi", True),
        *(("grep -l x * > list; xargs rm < list", False), ("f=$(grep -l x *); rm $(ls)", False)),
        ("grep -l x * | while read f; do rm $f; done", False),
        ("if true; then . ./x; ls *.log | xargs rm; fi", True),
        *(("ls *.log | xargs rm; ls | parallel rm", True), ("ls | gxargs rm", True)),
        *(("ls | xargs /bin/rm", True), ("ls | xargs /bin/sh -c 'rm \"$0\"'", True)),
        *(
            ("ls *.log | xargs rm; cat list | gxargs rm", True),
            ("find . -name '*.orig' | gxargs /bin/rm", False),
        ),
    ],
)
def test_deleting_what_ls_lists_of_a_pattern_asks_not(script: str, *, expected: bool) -> None:
    """It is `rm` of the pattern; of a folder or of everything, it asks."""
    assert asks(script) is expected


def test_deleting_what_ls_lists_of_a_folder_asks(tmp_path: Path) -> None:
    """It lists what the folder holds, by names that stand for other files in the workspace."""
    (tmp_path / "x" / "conf.d").mkdir(parents=True)
    (tmp_path / "a.log").touch()
    rules = CommandRules(allow=[command_rule("*")])

    verdicts = {
        each: judge(f"ls {each} | xargs rm", rules, Reach(root=tmp_path)).verdict
        for each in ("*.log", "*.d", "x/*.log", "x/*.d")
    }

    assert verdicts == {"*.log": "allow", "*.d": "allow", "x/*.log": "allow", "x/*.d": "ask"}


@each_row(
    ("script", "expected"),
    [
        *(
            ("cat <<E\nWhat of it the users delete (all\nE\n) (", False),
            ("echo 'it\n- what will purge\n( (", False),
        ),
        *(("( (\ntea repos delete x", True), ("( (; X=1 tea repos delete x", True)),
        *(("( (; timeout 5 tea repos delete x", True), ("( (\nif tea repos delete x; then", True)),
        *(("( (\n`tea repos delete x`", True), ("( (\nx=$(tea repos delete x)", True)),
        *(("( (; X='a b' tea repos delete x", True), ("( (; 2>x tea repos delete x", True)),
        ("( (\n@tea repos delete x", False),
        *(("( (\n$SU tea repos delete x", True), ("( (\nbundle exec tea repos delete x", True)),
        *(("( (\n>|x tea repos delete x", True), ("( (\n> 'a b' tea repos delete x", True)),
        ("( (\nA[0]=1 tea repos delete x", True),
    ],
)
def test_verb_amid_a_line_that_cannot_be_parsed_asks_not(script: str, *, expected: bool) -> None:
    """Any word of a text would pass for a program; one where a command begins does."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *(("echo 'git reset --hard' > x; sh x", True), ("echo 'rm -rf ~' >> ./x; . x", True)),
        ("cat > x.sh <<'E'\ngit reset --hard\nE\nchmod +x x.sh && ./x.sh", True),
        ("cat <<'E' | tee x.sh\ny=/; rm -rf $y\nE\ntimeout 9 sh -x ./x.sh", True),
        ("cat > /tmp/x <<'E'\nx='git push -f'; $x\nE\nbash /tmp/x", True),
        ("cat > x.sh <<'E'\nrm -rf \"$d/x\"\nE\nbash x.sh", True),
        ("cat > x.sh <<'E'\nt=$(mktemp -d); trap 'rm -rf \"$t\"' EXIT\nE\nbash x.sh", False),
        ("cat > x.sh <<'E'\nrm -rf build\nE\nbash x.sh", False),
        *(('echo "rm -rf $d/a" > x.sh; bash x.sh', True), ('echo "rm -rf $d" | ssh h', True)),
        ('d=build; echo "rm -rf $d/a" > x.sh; bash x.sh', False),
        ('echo "would rm -rf $d/a"; bash x.sh', False),
        # Bash takes the backslashes away before it writes the file, or hands the text on.
        ("cat > x.sh <<E\nd=/srv\nrm -rf \\$d\nE\nbash x.sh", True),
        ("cat > x.sh <<E\ncd \\$1\nrm -rf x\nE\nbash x.sh /srv", True),
        *((f"{run} <<E\nd=/srv\nrm -rf \\$d\nE", True) for run in ("bash", "ssh h")),
        ("cat > x.sh <<E\nd=build\nrm -rf \\$d/x\nE\nbash x.sh", False),
        ("cat > x.sh <<E\necho $USER\nt=\\$(mktemp -d)\nrm -rf \\$t\nE\nbash x.sh", False),
        # The others are put in by then, and what the script assigns is no help.
        ("cat > x.sh <<E\nfor d in a b; do rm -rf $d/x; done\nE\nbash x.sh", True),
        ("cat > x.sh <<E\nd=build\nrm -rf ${d}/x\nE\nbash x.sh", True),
        ('cat > a/x <<E\ncd "$(dirname "$0")/.."\nrm -rf b\nE\nsh a/x', True),
        ('cat > x.sh <<\'E\'\ncd "$(dirname "$0")" && rm -rf dist\nE\nbash x.sh', False),
        ("cat > a/x <<'E'\nd=$(cd \"$(dirname $0)\" && pwd)\nrm -rf $d/b\nE\nsh a/x", False),
        ('cat > a/x <<\'E\'\ncd "$(dirname "$0")/../.." && rm -rf dist\nE\nsh a/x', True),
        ('cat > /srv/x <<\'E\'\ncd "$(dirname "$0")" && rm -rf b\nE\nsh /srv/x', True),
        ('cd / && cat > x <<\'E\'\ncd "$(dirname "$0")" && rm -rf b\nE\nsh x', True),
        ("cat <<'E' > x.sh\ngit reset --hard\nE\nbash x.sh", True),
        *(("echo 'git reset --hard' > a/x; cd a && sh x", True),),
        *(
            ("echo 'git reset --hard' > $PWD/x; sh x", True),
            ("f=x; echo 'rm -r ~' > $f; sh $f", True),
        ),
        ("cat > a.md <<'E'\ngit reset --hard\nE\necho ls > x; sh x", False),
        ("cat > x.md <<'E'\ngit reset --hard\nE\nbash x.sh", False),
        *(
            ("bash x.sh > log; echo 'git reset --hard'", False),
            ("./x 2> y; echo 'rm -rf /'", False),
        ),
        ('node -e \'require("child_process").spawnSync("git",["reset","--hard"])\'', True),
        ('node -e \'require("child_process").execSync("npm test")\'', False),
        *(("php -r 'shell_exec(\"git reset --hard\");'", True), ("lerna exec git push -f", True)),
        ("echo 'git reset --hard' > a && mv a b && cp b c.sh && bash c.sh", True),
        ("echo 'git reset --hard' > a; cat a > b; sh b", True),
        ("echo 'git reset --hard' > a; mv b c; sh c", False),
        *(
            (f"echo 'git reset --hard' > x; bash {options} x y", True)
            for options in ("-o pipefail", "-eo pipefail +o posix", "-x --rcfile z -O extglob")
        ),
        ("echo 'git reset --hard' > x; bash --rcfile x -i", True),
        ("echo 'git reset --hard' > notes; bash x.sh notes", False),
        ("cat > x.py <<'E'\nimport os\nos.system('git reset --hard')\nE\npython3 -u x.py a", True),
        ("cat > x <<'E'\nimport shutil\nshutil.rmtree('/srv')\nE\nmv x y.py; python y.py", True),
        ("cat > x.js <<'E'\nrequire('fs').rmSync('/srv', {recursive: true})\nE\nnode x.js", True),
        ("cat > x <<'E'\n#!/usr/bin/env python3\nos.system('git reset --hard')\nE\n./x", True),
        ("cat > x.py <<'E'\nprint('run git reset --hard')\nE\npython x.py", False),
        ("cat > x <<'E'\n#!/usr/bin/python3\nprint('git reset --hard')\nE\n./x", False),
        ("cat > a.txt <<'E'\nos.system('git reset --hard')\nE\npython x.py a.txt", False),
        ("cat > a.py <<'E'\nos.system('git reset --hard')\nE\nsed -i s/a/b/ a.py", False),
        ("cat > a.py <<'E'\nos.system('git reset --hard')\nE\npython -m black a.py", False),
        ("echo 'system(\"rm -rf ~\")' > a.log; perl $x a.log", True),
        ("docker exec -i c sh <<'E' && echo 'rm -rf ~' | sh\nls\nE", True),
        ("bash -c 'cat > x.sh <<E\nrm -rf ~\nE\nbash x.sh'", True),
        ("sh -c \"sh -c 'echo rm -rf / > x; sh x'\"", True),
        ("eval \"bash <<< 'git reset --hard'\"", True),
        ("bash -c $'sh <<E\\nrm -rf /srv\\nE'", True),
        ("bash -c 'echo \"cd /etc; rm x\" | sh'", True),
        ("bash -c ': | crontab -'", True),
        ("bash -c 'cat > x.md <<E\nrm -rf ~\nE\nbash x.sh'", False),
        *(("echo $D rm -rf /srv | sh", True), ('echo "$D" git reset --hard > x; sh x', True)),
        *(("echo rm -rf $D | sh", True), ('echo rm -rf "$D/a" > x; sh x', True)),
        *(("D=b; echo rm -rf $D | sh", False), ("echo hello $D | sh", False)),
        ("echo 'rm -rf ~' > a/x; cp a/*.sh .; for f in *.sh; do bash $f; done", True),
        *(("echo 'rm -rf ~' > a; . $X", True), ("echo 'rm -rf ~' > a; bash -c 'ls *'", False)),
        *(("echo 'rm -rf ~' > a; rsync a b; sh b", True),),
        *(("echo 'rm -rf ~' > a; dd if=a of=b; sh b", True),),
        ("cat > 'a\\e/x' <<'E'\nrm -rf ~\ncd \"$(dirname $0)\"\nE\nsh 'a\\e/x'", True),
        ("cat > x.ps1 <<'E'\nRemove-Item -Recurse C:\\Users\nE\npwsh x.ps1", True),
        ("cat > x.ps1 <<'E'\nrm -rf /srv\nE\npwsh x.ps1", True),
        ("cat > x.ps1 <<'E'\ngit reset --hard\nE\npwsh -File x.ps1", True),
        ("echo 'rm -rf /srv' > python3; chmod +x python3; ./python3 ./python3", True),
        ("bash -c 'cat > x.sh <<E\nrm -rf build\nE\nbash x.sh'", False),
        ("echo 'rm -rf ~' > x; chmod +x x; PATH=.:$PATH bash -c x", True),
        # A script in it writes what another one runs.
        *(("bash -c 'echo rm -rf / > x'; sh x", True), ("echo rm -rf / > x; sh -c 'sh x'", True)),
        ("sh -c 'cat > x.sh <<E\nrm -rf ~\nE' && bash x.sh", True),
        # The shell finds it by its name.
        ("cat > x.sh <<'E'\nrm -rf ~\nE\nchmod +x x.sh; PATH=. x.sh", True),
        ("echo 'rm -rf ~' > bin/x; export PATH=$PWD/bin:$PATH; x", True),
        ("echo 'rm -rf ~' > x; PATH=bin:$PATH y x", False),
        # It may be the file of a pattern, or of a variable.
        ("echo 'rm -rf ~' | tee y.sh; sh y*.sh", True),
        ("printf 'rm -rf ~' | tee y.sh; for f in *.sh; do bash $f; done", True),
        ("echo 'os.system(\"rm -rf ~\")' > x.py; for f in *.py; do python3 $f; done", True),
        ("echo 'os.system(\"rm -rf ~\")' > x.py; python3 *.py", True),
        ("echo 'os.system(\"rm -rf ~\")' > x.md; for f in *.py; do python3 $f; done", False),
        ('echo \'os.system("rm -rf ~")\' > x.py; python3 -c "$code"', False),
        ("echo 'os.system(\"rm -rf ~\")' > x.py; python3 -m x", True),
        # By a name that is put in, or of a module.
        ("t=x.txt; echo 'shutil.rmtree(\"/srv\")' > $t; python3 $t", True),
        ("t=x.txt; echo 'shutil.rmtree(\"out\")' > $t; python3 $t", False),
        ("echo 'shutil.rmtree(\"/srv\")' > tools/gen.py && python3 -m tools.gen", True),
        # A program runs it by itself.
        ("printf 'all:\\n\\trm -rf ~\\n' > Makefile; make", True),
        ("printf 'all:\\n\\t@-rm -rf $$HOME\\n' > Makefile; make", True),
        ("printf 'x: ; rm -rf ~\\n' > build.mk; make -f build.mk", True),
        ("printf 'all: x\\nx:\\n\\trm -rf ~\\n' > a/Makefile; make -C a", True),
        ("printf 'all:\\n\\tls\\nx:\\n\\trm -rf ~\\n' > Makefile; make", False),
        ("printf 'all:\\n\\tmake x\\nx:\\n\\trm -rf ~\\n' > Makefile; make; make x", True),
        ("printf 'B := build\\nclean:\\n\\trm -rf $(B)\\n' > Makefile; make clean", False),
        ("printf 'B = /srv\\nclean:\\n\\trm -rf $(B)/a\\n' > Makefile; make clean", True),
        ("printf 'B := $(shell rm -rf ~)\\nall: ; ls\\n' > Makefile; make", True),
        ("printf 'V := $(shell git describe)\\nall: ; echo $(V)\\n' > Makefile; make", False),
        ("printf 'all: ; ls\\nx: ; rm -rf ~\\n' > Makefile; for t in x; do make $t; done", True),
        ("printf '.DEFAULT_GOAL := x\\nall: ; ls\\nx: ; rm -rf ~\\n' > Makefile; make", True),
        ("printf 'all: x\\n\\n# y\\nx:\\n\\tls\\n\\n\\trm -rf ~\\n' > Makefile; make", True),
        ("printf 'V != rm -rf ~\\nall: ; ls\\n' > Makefile; make", True),
        ("printf 'all: $(shell\\trm -rf ~)\\n\\tls\\n' > Makefile; make", True),
        ("printf 'C = rm\\nC += -rf ~\\nall: ; $(C)\\n' > Makefile; make", True),
        ("printf 'x: C = rm -rf ~\\nx: ; $(C)\\n' > Makefile; make", True),
        ("printf 'B=x\\nc:\\n\\trm -rf $B\\nx: ; cd y; $(MAKE) z\\n' > Makefile; make x", False),
        ("printf 'x: ; make c\\nc: ; rm -rf ~\\n' > Makefile; make x", True),
        ("printf 'define c\\nrm -rf ~\\nendef\\nx:\\n\\t$(call c)\\n' > Makefile; make", True),
        *((f"printf 'x: ; $(RM) -r {each}\\n' > Makefile; make", each == "~") for each in "~b"),
        ("printf 'x:\\n  rm -rf ~\\n' > justfile; just x", True),
        ('echo \'{"scripts": {"test": "rm -rf ~"}}\' > package.json; npm test', True),
        ('echo \'{"scripts": {"prex": "rm -rf ~", "x": "ls"}}\' > package.json; npm run x', True),
        ('echo \'{"scripts": {"a": "yarn b", "b": "rm -rf ~"}}\' > package.json; yarn a', True),
        ('echo \'{"scripts": {"postinstall": "rm -rf ~"}}\' > package.json; npm ci', True),
        ('echo \'{"scripts": {"release": "npm publish"}}\' > package.json; npm install', False),
        ('echo \'{"scripts": {"clean": "rm -rf dist"}}\' > package.json; npm run clean', False),
        ('echo \'{"scripts": {"x": "rm -rf ~"}}\' > package.json; npm run $X', True),
        ('echo \'{"scripts": {"test": "rm -rf ~"}}\' > package.json; npm it', True),
        (
            'echo \'{"scripts": {"a": "run-s b:*", "b:c": "rm -rf ~"}}\' > package.json; npm run a',
            True,
        ),
        *(
            (f"echo '{{\"scripts\": {x}}}' > package.json; npm test", False)
            for x in ("null", "[1]")
        ),
        ("npm pkg set scripts.x='rm -rf ~'; npm run x", True),
        ("printf 'all:\\n\\trm -rf ~\\n' > x; MAKEFILES=x make", True),
        ("printf '.RECIPEPREFIX = >\\nall:\\n> rm -rf ~\\n' > Makefile; make", True),
        ("printf '.RECIPEPREFIX = >\\nall:\\n> rm -rf build\\n' > Makefile; make", False),
        ("printf 'all:\\n\\trm -rf ~\\n' > Makefile; remake", True),
        ("echo 'all: ; rm -rf ~' > x.inc; echo 'include x.inc' > Makefile; make", True),
        ("printf 'all: ; rm -rf $(CURDIR)/a\\n' > Makefile; make", False),
        ("printf 'd := \"/srv\"\\nx:\\n  rm -rf {{d}}/a\\n' > justfile; just x", True),
        ("printf 'd := \"dist\"\\nx:\\n  rm -rf {{d}}/a\\n' > justfile; just x", False),
        ("printf 'x a=\"1\":\\n  rm -rf ~\\n' > justfile; just x", True),
        ('echo \'{"scripts": {"x": "rm -rf ~"}}\' > package.json; node --run x', True),
        ('echo \'{"scripts": {"x": "rm -rf ~"}}\' > package.json; npx concurrently npm:x', True),
        ('echo \'{"scripts": {"x": "ls", "y": "rm -rf ~"}}\' > package.json; run-p npm:x', False),
        ('echo \'{"tasks": {"x": {"command": "rm -rf ~"}}}\' > deno.json; deno task x', True),
        (
            'echo \'{"tasks": {"x": {"dependencies": ["y"]}, "y": "rm -rf ~"}}\' > deno.json; '
            "deno task x",
            True,
        ),
        ("printf '[testenv]\\ncommands =\\n  sh -c \"rm -rf ~\"\\n' > tox.ini; tox -e py", True),
        ("printf '[testenv]\\ncommands = rm -rf {toxinidir}/build\\n' > tox.ini; tox", False),
        (
            'printf \'[tox.env_run_base]\\ncommands = [["rm", "-rf", "/srv"]]\\n\' > tox.toml; tox',
            True,
        ),
        ("awk -i inplace '{print \"rm -rf ~\"}' s.sh; sh s.sh", True),
        ("ed s.sh <<< $'a\\nrm -rf ~\\n.\\nw'; sh s.sh", True),
        ("printf '[alias]\\n\\tx = !rm -rf ~\\n' >> .git/config; git x", True),
        ("printf '[alias]\\n\\tx = !rm -rf ~\\n' >> .git/config; git log", False),
        ("printf '[alias]\\n\\tx = reset --hard\\n' >> ~/.gitconfig; git x", True),
        ("printf '[core]\\n\\tfsmonitor = rm -rf ~\\n' >> .git/config; git status", True),
        ('echo \'require("fs").rmSync("/srv", {recursive: true})\' > index.js; node .', True),
        ("echo 'os.system(\"rm -rf ~\")' > a.py; python3 -c 'import a'", True),
        ("echo 'os.system(\"rm -rf ~\")' > conftest.py; python3 -m pytest", True),
        ("echo 'os.RemoveAll(\"/srv\")' > main.go; go run .", True),
        ("echo 'system(\"rm -rf ~\");' > a.c; gcc a.c -o a && ./a", True),
        ("echo 'rm -rf ~' > .git/hooks/pre-commit; git commit -m x", True),
        *(("echo 'BEGIN {system(\"rm -rf ~\")}' > f; awk -f f", True),),
        *(("echo '1e rm -rf ~' > f; sed -n -f f x", True), ("echo p > f; sed -n -f f x", False)),
        ("echo 'rm -rf ~' > a; BASH_ENV=a bash -c ls", True),
        # It is made of another one, or by a program of the text.
        *((f"echo 'rm -rf ~' > a; {each} a > b; sh b", True) for each in ("paste", "nl", "m4")),
        *(("echo '~ fr- mr' > a; rev a > b; sh b", True), ("rev a > b; sh b", False)),
        *(("echo cm0gLXJmIH4K | base64 -d > b; sh b", True),),
        ("echo cm0gLXJmIH4K > a; base64 -d a > b; sh b", True),
        ("echo 'rm -rf ~' > a; gzip a; gunzip a.gz; sh a", True),
        *(("echo 'rm -rf ~' > a; cat < a > b; sh b", True), ("cat < a > b; sh b", False)),
        *(
            ("cd . && exec > a; echo 'rm -rf ~'; sh a", True),
            ("exec > a; echo 'rm -rf ~'; sh a", True),
            ("exec > a; echo 'rm -rf ~'; sh b", False),
        ),
        ("f() { echo 'rm -rf ~'; }; f > a; sh a", True),
        *((f"echo 'rm -rf ~' | {each} a; sh a", True) for each in ("sponge", "cp /dev/stdin")),
        *((f"{each} of=a <<< 'rm -rf ~'; sh a", True) for each in ("dd", "sudo dd")),
        ('python3 -c \'open("a", "w").write("rm -rf ~")\'; sh a', True),
        ("sed -i '1i rm -rf ~' a; sh a", True),
        *(
            (f"{each} | sh", True)
            for each in ("awk 'BEGIN {print \"rm -rf ~\"}'", "sed 's/.*/rm -rf ~/' f")
        ),
        ("sed -i s/foo/bar/ a.sh && sh a.sh", False),
        ("docker exec -i c sh <<E | sh\necho 'rm -rf ~'\nE", True),
        *((f"echo 'rm -rf ~' > a; bash -n {each}a", each != "") for each in ("", "+n ", "-i ")),
        ("echo 'rm -rf ~' | tee 'a b'; sh 'a b'", True),
        # What runs it is itself such a file, or such a file writes it.
        ("echo 'rm -rf ~' > x; printf 'all:\\n\\tsh x\\n' > Makefile; make", True),
        ("echo 'sh x' > y; echo 'rm -rf build' > x; sh y", False),
        (
            'echo \'{"scripts": {"x": "sh x"}}\' > package.json; echo \'rm -rf ~\' > x; npm run x',
            True,
        ),
        ("echo 'echo \"rm -rf ~\" > x' > y; sh y; sh x", True),
        ("cat > a.py <<'E'\nopen('x', 'w').write('rm -rf ~')\nE\npython a.py; sh x", True),
        # Two programs run it.
        *((f"echo 'rm -rf ~' > x; {run}", True) for run in ("python3 x; bash x", "sh x; node x")),
        ("echo 'os.system(\"rm -rf ~\")' > x; bash x; python3 x", True),
        ("echo 'rm -rf ~' > a; sed s/a/b/ a > b; sh b", True),
        # What is printed is a text with the values put in.
        *(("printf 'rm -rf %s\\n' ~/a | sh", True), ("printf '%s -rf %s' rm / | sh", True)),
        *(("printf '\\x72m -rf ~' | sh", True), ("printf -v c 'rm -rf %s' ~; eval $c", True)),
        *(("printf '%d %s\\n' 1 a | sh", False), ("printf 'rm -rf %s\\n' build | sh", False)),
        # A variable may be empty, or hold `sudo`.
        *((f'sh <<< "{each} rm -rf ~"', True) for each in ("$x", "$x $y", "${x:-}")),
        *(("bash <<E\n$x rm -rf ~\nE", True), ('sh <<< "$x rm -rf build"', False)),
        # A text that runs may run another one.
        *((f"{run}\necho 'rm -rf ~' | sh\nE", True) for run in ("bash <<'E'", "ssh localhost <<E")),
        ("cat > a.sh <<'E'\ncat > b.sh <<'F'\nrm -rf ~\nF\nsh b.sh\nE\nsh a.sh", True),
        ("cat > a.sh <<'E'\npython3 -c 'shutil.rmtree(\"/srv\")'\nE\nsh a.sh", True),
        ("bash <<'E'\npython3 <<'F'\nos.system('rm -rf ~')\nF\nE", True),
        ("cat > a.sh <<'E'\nB=build; eval \"rm -rf '$B'\"\nE\nsh a.sh", False),
        ("bash <<'E'\nB=build\nbash -c \"rm -rf $B\"\nE", False),
        ("bash <<'E'\ncat > a.sh <<'F'\nB=build\nrm -rf \"$B\"\nF\nsh a.sh\nE", False),
        # It is one word of parts.
        *(("x=~; bash -c $'rm -rf '$x", True), ("x=~; eval 'rm -rf '$x", True)),
        *(("x=build; bash -c 'rm -rf '$x", False), ("x='a ~'; sh -c 'rm -rf '$x", True)),
    ],
)
def test_deleting_by_a_file_that_the_script_writes_and_runs_asks(
    script: str, *, expected: bool
) -> None:
    """Threat 19: of another script file only the name is known."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *((f"{each} a.zip ~/work", True) for each in ("zip -rm", "zip -r --move", "zip -qm")),
        *(("zip -m a.zip ../x", True), ("zip -rm a.zip src -x '*.o'", False)),
        *(("zip -r a.zip ~/work", False), ("mv ~/work /dev/null", True)),
        *(("mv a /dev/null", False), ("mv ~/work .", False)),
        *(("git.exe reset --hard", True), ("'C:/Git/bin/git.exe' reset --hard", True)),
        ("git -c alias.x=reset x --hard", True),
        ("git -calias.x='push origin' x +main", True),
        *(("git -c alias.x='!rm -rf' x ~", True), ("git -c alias.x='log -1' x", False)),
        ("awk 'BEGIN {system(\"rm\\040-rf\\040/\")}'", True),
        *(("rclone dedupe r:", True), ("borg recreate r::a -e x", True), ("deck reset", True)),
        ('aws route53 change-resource-record-sets --change-batch \'{"Action": "DELETE"}\'', True),
    ],
)
def test_less_common_ways_to_delete_ask(script: str, *, expected: bool) -> None:
    """Threat 2: under another name, or as a part of something else."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        ("perl -e 'exec qw(rm -rf), $ENV{HOME}'", True),
        ('php -r \'passthru("rm -rf ".getenv("HOME"));\'', True),
        ("ruby -e 'IO.popen(%w[rm -rf] + [Dir.home])'", True),
        ("ruby -rfileutils -e 'FileUtils.remove_dir Dir.home'", True),
        ("ruby -rfileutils -e 'FileUtils.remove_dir \"out\"'", False),
        ('node -e \'let {spawnSync: s} = require("child_process"); s("rm", ["-rf", x])\'', False),
        (
            'node -e \'let {spawnSync: s} = require("child_process");'
            ' s("rm", ["-rf", process.env.HOME])\'',
            True,
        ),
        ("R -q -e 'unlink(Sys.getenv(\"HOME\"), recursive=T)'", True),
        ("R -q -e 'unlink(\"out\", recursive=TRUE)'", False),
        ('clojure -M -e \'(clojure.java.shell/sh "rm" "-rf" "/srv")\'', True),
        ("racket -e '(delete-directory/files (find-system-path (quote home-dir)))'", True),
        ("sbcl --eval '(uiop:delete-directory-tree (user-homedir-pathname) :validate t)'", True),
        ("emacs -batch -eval '(shell-command \"rm -rf ~\")'", True),
        ("groovy -e 'new File(System.getProperty(\"user.home\")).deleteDir()'", True),
        ("echo 'file delete -force $env(HOME)' | tclsh", True),
        ('jshell -s - <<< \'new ProcessBuilder("rm", "-rf", "/srv").start();\'', True),
        ("echo 'puts hello' | tclsh", False),
        *(("swift build", False), ("swift test && scala a.sc", False), ("R CMD check .", False)),
        ("psql -c \"COPY (SELECT 1) TO PROGRAM 'rm -rf /srv'\"", True),
        *((f"{x} git reset --hard", True) for x in ("just --command", "mix cmd", "opam exec --")),
        *(("stack exec -- rm -rf ~", True), ("cargo watch -x run -s 'rm -rf ~'", True)),
        *(("tar --remove-files -cf a.tar ~/work", True), ("7z a -sdel a.7z ~", True)),
        *(("tar --remove-files -cf a.tar src", False), ("tar -cf a.tar ~/work", False)),
        *(("{rm,-rf,~}", True), ("{echo,hello}", False)),
        ("IFS=_; c=rm_-rf_$HOME; $c", True),
        *((f'c="{x} $HOME"; $c', x != "ls") for x in ("rm -rf", "ls")),
        *((f"tclsh <<< 'file delete -force {x}'", x != "out") for x in ("/srv/a", "~", "out")),
        *(("IFS=,; x=rm,-rf,/srv; $x", True), ("IFS=,; x=ls,-l,/srv; $x", False)),
    ],
)
def test_deleting_by_code_of_any_language_or_another_separator_asks(
    script: str, *, expected: bool
) -> None:
    """Threat 2: the home directory also as the call or the variable of that language."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        ("echo 'rm -f /app/x' | docker exec -i c sh", False),
        ("docker exec -i c sh <<< 'rm -f /app/x'", False),
        ("echo 'rm -rf /data' | docker exec -i c sh", True),
        ("echo 'rm -f /app/x' | docker exec -i c sh | sh", True),
        ("echo 'rm -f /app/x' | docker exec -i c sh; ls > a", False),
        ("echo 'rm -f /etc/x' | sh", True),
        ("docker exec -i c sh <<< 'rm -f /app/x' | sh", True),
    ],
)
def test_text_that_a_container_reads_deletes_there(script: str, *, expected: bool) -> None:
    """As a here-document does."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *((f"docker run -v $PWD:/w {x}", False) for x in ("i rm -rf /w/build", "i", "")),
        ('docker run --rm -v "$PWD":/w -w /w i rm -rf /w/build /w/a/b', False),
        ('cd a && podman run -v "$(pwd)/b":/w:z i rm -rf /w/build', False),
        *((f"docker run -v $PWD:/w i rm -rf {x}", True) for x in ("/w", "/w/", "/w/*", "/w/.git")),
        *((f"docker run -v $PWD:/w i rm -rf {x}", True) for x in ("/w/../x", "/w/$X", "/w /x")),
        *((f"docker run -v {x}:/w i rm -rf /w/a", True) for x in ("/", "..", "$PWD/..", "$X")),
        ("docker run -v $PWD/.git:/w i rm -rf /w/objects", True),
        ("docker run -v $PWD:/w -v $PWD/.git:/w/a i rm -rf /w/a", True),
        ("docker run -v $PWD:/w -v /:/w/a i rm -rf /w/a", True),
        ("docker run -v $PWD:/w --mount type=bind,src=/,dst=/w/a i rm -rf /w/a", True),
        ("docker run --privileged -v $PWD:/w i rm -rf /w/a", True),
        ("docker -H h run -v $PWD:/w i rm -rf /w/a", True),
        ("DOCKER_HOST=h docker run -v $PWD:/w i rm -rf /w/a", True),
        *((f"{x}; docker run -v $PWD:/w i rm -rf /w/a", True) for x in ("cd ..", "PWD=/", "cd $X")),
        ("pwd() { echo /; }; docker run -v $(pwd):/w i rm -rf /w/a", True),
        ("docker() { sh -c x; }; docker run -v $PWD:/w i rm -rf /w/a", True),
        *(
            (f"{x}; docker run -v $PWD:/w i rm -rf /w/a", True)
            for x in ("docker context use h", "podman system connection default h", ". ./env")
        ),
        *(
            (f"{x}; docker run -v $PWD:/w i rm -rf /w/a", True)
            for x in ('eval "$(docker-machine env h)"', 'export DOCKER""_HOST=h', "export P\\WD=/")
        ),
        ("export DOCKER_HOST=h; sh -c 'docker run -v $PWD:/w i rm -rf /w/a'", True),
        ("ssh h docker run -v $PWD:/w i rm -rf /w/Documents", True),
        ('set -- n -v /:/w/a; docker run --name "$@" -v $PWD:/w i rm -rf /w/a', True),
    ],
)
def test_folder_of_the_workspace_in_a_container_is_deleted_as_here(
    script: str, *, expected: bool
) -> None:
    """`-v $PWD:/w` alone says what a path there is here."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        ("find . -name __pycache__ | xargs rm -rf", False),
        ("find . -type d -name __pycache__ | xargs -r rm -r", False),
        ("find . -name __pycache__ -print0 | xargs -0 rm -rf", False),
        ("find . -name '*' | xargs rm -rf", True),
        ("find .. -name __pycache__ | xargs rm -rf", True),
        ("find / -name __pycache__ | xargs rm -rf", True),
        ("find . -name __pycache__ -o -print | xargs rm -rf", True),
        ("cd x; find . -name __pycache__ | xargs rm -rf", True),
        ("mkdir 'a ..'; find . -name __pycache__ | xargs rm -rf", True),
        ("tar xf a.tar; find . -name __pycache__ | xargs rm -rf", True),
        ("find . -name __pycache__ | tr x / | xargs rm -rf", True),
        ("find . -name 'x*' 2>/dev/null | xargs rm -rf", False),
        ("ls -a\"find . -type f | xargs rm -rf'", True),  # a quote without an end
        *((f"{x}; find . -name 'x*' | xargs rm -rf", True) for x in ("> 'x src'", "rm y 2> 'x a'")),
        ("find . -name y -fprint 'x src'; find . -name 'x*' | xargs rm -rf", True),
        ("echo -mkdir; mkdir 'x src'; find . -name 'x*' | xargs rm -rf", True),
        ("echo <(mkdir 'x src'); find . -name 'x*' | xargs rm -rf", True),
        *((f"find {x} -name 'obj*' -exec rm -rf {{}} +", x == ".") for x in (".", "src")),
        *((f"find . -name {x} -exec rm -rf {{}} +", x != "obj") for x in ("refs", "pack", "obj")),
    ],
)
def test_list_of_names_that_are_one_word_each_may_be_deleted(
    script: str, *, expected: bool
) -> None:
    """Without -0, `a ../__pycache__` is two names, and a script may make such a folder."""
    assert asks(script) is expected


@pytest.mark.parametrize("name", ["a ../__pycache__", "a /__pycache__", "a'b", "a\\b", "a\nb"])
def test_list_of_names_asks_where_one_is_more_than_a_word(name: str, tmp_path: Path) -> None:
    """`xargs` then deletes what is in the folder around."""
    script, rules = "find . -name __pycache__ | xargs rm -rf", CommandRules()
    before = judge(script, rules, Reach(root=tmp_path)).verdict

    (tmp_path / name).mkdir(parents=True)

    assert (before, judge(script, rules, Reach(root=tmp_path)).verdict) == ("undecided", "ask")


def test_names_are_looked_at_once_for_all_values_of_a_script(tmp_path: Path) -> None:
    """In a loop, each value took as long as the whole: half a minute for 64 and 18,000 files."""
    (tmp_path / "a").touch()
    loops = (
        "for x in a b; do for y in c d; do rm -rf $x/$y; find . -name x | xargs rm -rf; done; done"
    )

    judge(loops, CommandRules(), Reach(root=tmp_path))

    assert has_only_words.cache_info().misses == 1


@each_row(
    ("script", "expected"),
    [
        *((f"V=.venv; rm -rf $V; {x}/bin/pip i", False) for x in ('"$V"', "$V", '"${V}"')),
        ("export V=.venv\n$V/bin/pip i\nrm -rf $V", False),
        ("rm -rf $V; $V/bin/pip i", True),
        *((f"V={x}; rm -rf $V; $V/bin/pip i", True) for x in ("/", "..", "$1", "'eval V='", "")),
        *(
            (f"V=a; {x}; rm -rf $V; $V/bin/pip i", True)
            for x in ("V=/", "read V", "for V in /; do :; done", "W='read V'; $W/x")
        ),
        *((f"{x}; rm -rf $V; $V/bin/pip i", True) for x in ("V=a; . x", "V=a; cd ..", "V=(/)")),
    ],
)
def test_program_in_a_folder_that_the_script_names_sets_no_variable(
    script: str, *, expected: bool
) -> None:
    """It is a path, so no builtin, unless the value has a blank."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *((f"goreleaser {x}", False) for x in ("build", "build --snapshot", "check", "init")),
        *((f"goreleaser {x}", True) for x in ("", "release", "-f build release", "r --clean")),
    ],
)
def test_building_without_a_release_publishes_nothing(script: str, *, expected: bool) -> None:
    """The subcommand must be the first word: a file of settings may have its name."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        *((f"{x} <<< 'rm -rf /srv'", True) for x in ("sudo -i", "sudo -su me", "su -", "sudo su")),
        *((f"echo 'rm -rf /srv' | {x}", True) for x in ("doas -s", "sudo --login", "su me")),
        *((f"{x} <<< 'rm -rf out'", False) for x in ("sudo -i", "sudo -s", "su -")),
        *((f"{x} <<< 'rm -rf /srv'", False) for x in ("sudo -S ls", "sudo -u me cat")),
    ],
)
def test_text_that_a_shell_of_another_user_reads_is_judged(script: str, *, expected: bool) -> None:
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        ("hash -p /bin/rm ls; ls -rf ~", True),
        ("hash -p /usr/bin/git g; g status", False),
        *((f"{x} /dev/null ~/a", True) for x in ("cp", "install -m 600", "ln -sf", "mv")),
        *((f"{x} /dev/null a.log", False) for x in ("cp", "install -m 600", "ln -sf")),
        *((f"dd if=/dev/null of={x}", x != "a.log") for x in ("~/a", "/srv/a", "a.log")),
        *((f"mv ~/Documents {x}", True) for x in ("/tmp/gone", "/tmp", "/dev/shm/a", "/dev/null")),
        *((f"mv {x}", False) for x in ("/tmp/a /tmp/b", "src /tmp/gone", '"$f" /tmp', "~/a src")),
    ],
)
def test_file_outside_that_is_emptied_or_moved_to_a_temporary_folder_asks(
    script: str, *, expected: bool
) -> None:
    """There nothing is kept; `hash -p` gives a program another name."""
    assert asks(script) is expected


@each_row(
    ("script", "expected"),
    [
        ("cat <(rm -rf '/srv/x')", True),
        ("diff <(rm -rf \"/srv/x\") <(ls 'a')", True),
        ("echo a | tee >(git reset --hard 'HEAD')", True),
        ("V=a; diff <(sort 'a') <(sort 'b') && rm -rf $V", False),
    ],
)
def test_command_between_angle_brackets_runs(script: str, *, expected: bool) -> None:
    """Its quotes made it a text."""
    assert asks(script) is expected


def test_more_texts_than_can_be_judged_in_time_ask() -> None:
    """Each of 200 words may go on with those behind it: that took 12 seconds."""
    words = " ".join(f"'echo $(ls {number});'" for number in range(200))

    judged = judge(f"eval $x {words}", CommandRules(), Reach(root=Path("/nowhere")))

    assert "too long" in judged.reason


def test_text_that_may_be_in_any_of_many_files_is_judged_once() -> None:
    """For each file and each text, a script of 2,000 characters took ten seconds."""
    names = " ".join(f"f{number}" for number in range(30))
    words = "".join(f"echo word{number}; " for number in range(5))

    found = [*files_run([f"sh $X; {words}cat x | tee {names}"])]

    assert len(found) == len({*found}) == 5
