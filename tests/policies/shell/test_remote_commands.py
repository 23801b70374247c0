"""What a command deletes in a container, on another machine, or of caches."""

from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row


def asks(script: str) -> bool:
    """Return whether *script* asks in every mode."""
    return judge(script, CommandRules(), Reach(root=Path("/nowhere/here"))).verdict == "ask"


@each_row(
    "script",
    [
        *("docker exec c rm -f /app/x", "docker exec -it c sh -c 'rm -f /app/x && ls /app'"),
        *(
            "sudo docker exec -u root -w /app \"$C\" rm '/app/x'",
            "podman container exec c unlink /a/x",
        ),
        *(
            "docker compose -f a.yml exec -T web rm -f /app/tmp/pids/server.pid",
            "f() { docker exec c rm /a/x; }; f",
        ),
        *("D=/app; docker exec c rm -f $D/x", "for f in a b; do docker exec c rm -f /app/$f; done"),
        *("bash -c 'docker exec c rm -f /app/x'", "x=$(docker exec c rm -f /app/x 2>&1)"),
        *(
            "kubectl -n a exec -it web -c b -- sh -c 'rm -f /app/x'",
            "docker --context p exec c rm /a/x",
        ),
        *(
            "docker exec c rm -rf /app/node_modules /app/dist /tmp/x",
            "docker exec c sh -c 'rm -rf /tmp/*'",
        ),
        *(
            "docker exec c sh -c 'cd /app && rm -rf node_modules'",
            "docker exec c rm -rf /var/cache/nginx /home/node/.npm/_npx",
        ),
        *(
            "docker exec c find /app -name '*.pyc' -delete",
            "docker exec c find /app -name '*.pyc' -exec rm -f {} +",
            "ssh h 'mv app.new app && rm -rf /tmp/deploy'",
            "timeout 9 docker exec c rm -f /app/x || true",
        ),
        "docker run --rm -it -e A=b img bash -c 'apt update && rm -rf /var/lib/apt/lists/* /srv/x'",
        *(
            "ssh host rm x",
            "ssh -i key -p 22 root@host 'rm -f /opt/a/x.log && systemctl restart a'",
        ),
        *('ssh "$H" "rm -rf /tmp/deploy"', "ssh host sudo rm -f /srv/x", "ssh host -t 'rm /srv/x'"),
        *("ssh host docker exec c rm -f /app/x", "ssh host 'cd /opt/a && rm -rf node_modules'"),
        *(
            "ssh h <<'E'\nrm -f /srv/x\nls\nE",
            "ssh h << E\ncd /opt/a\nrm -rf node_modules\nnpm ci\nE",
        ),
        *("adb shell <<'E'\nrm -f /sdcard/x\nE", "echo 'rm /sdcard/x' | adb -s e shell"),
        *("ssh h 'cat > x' <<'E'\nrm -rf /srv\nE", "echo x | ssh h", "ssh -N -L 80:a:80 h"),
        *("adb shell rm -f /data/local/tmp/x", "adb -s e shell rm /sdcard/x.png"),
        *("apt-get install -y a && rm -rf /var/lib/apt/lists/*", "rm -rf ~/.cache/pip"),
        *("sudo rm -rf /var/cache/apt", "rm -rf ~/.npm/_cacache ~/Library/Caches/x"),
        *("docker exec -i c sh <<E\nrm -f /app/x\nE", "kubectl exec -i p -- sh <<E\nrm -f /a/x\nE"),
        "docker compose exec -T web bash -s <<'E'\ncd /app\nrm -f x\nrm -rf node_modules\nE",
        "docker exec -i c sh -e <<'E'\nls\nrm -f /app/x\nE\nmake test",
        *("ssh h 'hostname; rm -f /srv/x'", 'docker exec c sh -c "uname -m; rm -rf /tmp/x"'),
    ],
)
def test_deleting_what_is_named_or_made_again_elsewhere_is_left_to_the_rules(script: str) -> None:
    """Threat 19: users who are asked about everything soon approve everything."""
    assert not asks(script)


@each_row(
    "script",
    [
        *("docker exec c rm -rf /", "docker exec c rm -rf /data", "docker exec c rm -rf ~"),
        *(
            "docker exec db rm -rf /var/lib/mysql",
            'docker exec c rm -rf "$D"',
            "docker exec c rm -rf .git",
        ),
        *(
            "docker exec c sh -c 'rm -rf /app/*'",
            "docker exec c rm -rf /app/.git",
            "docker exec c rm -rf .",
        ),
        *("docker exec c sh -c 'rm /app/x; rm -rf /data'", "docker exec c rm -rf /tmp/../data"),
        *("docker exec c sh -c 'ls | xargs rm -rf'", "docker exec c find /data -type f -delete"),
        *("docker exec c sh -c 'cd /data && rm -rf *'", "kubectl exec web -- rm -rf /data"),
        *(
            "docker exec c sh -c 'rm -f /a/x; psql -c \"DROP TABLE x\"'",
            "docker exec c rm -rf /cache",
        ),
        # Of this machine, beside what is not.
        *("docker exec c rm -f /app/x; rm -f /etc/x", "docker exec c rm -f /a/x && rm -f /a/x"),
        *('docker exec c rm -f "/app/$(rm -rf ~)"', "X=$(rm -rf ~) docker exec c rm -f /app/x"),
        *("docker exec c rm -f /a/x > /dev/sda", "docker exec c rm -f /a/x <<< $(rm -rf ~)"),
        *("docker run -v /:/h img rm -rf /h/x", "docker run --rm -v ~/:/w img sh -c 'rm -f /w/x'"),
        *("docker run --mount type=bind,src=/,dst=/h img rm /h/x", "nerdctl run x rm -rf ~"),
        *(
            "docker run --privileged --pid=host img nsenter -t 1 -m rm -rf /srv",
            "ls | xargs ssh h rm -rf",
        ),
        *('docker() { "$@"; }; docker exec c rm -f /etc/x', "alias ssh=eval; ssh h rm -f /etc/x"),
        *("ssh localhost rm -f /srv/x", "ssh me@127.0.0.1 'rm -f /srv/x'", "ssh h 'rm -rf ~'"),
        *("ssh h 'rm -rf /srv/a'", "ssh h rm -f /etc/x.conf", "ssh h 'rm ~/.ssh/authorized_keys'"),
        *("ssh -o ProxyCommand='rm -rf ~' h rm -f /x", "ssh h rm -f /srv/x \\; rm -rf /srv"),
        *("ssh h 'rm -rf /tmp/*'", "ssh h rm -rf /srv/../etc/build", "ssh h 'rm -rf /home/build'"),
        *("ssh h bash <<'E'\nrm -rf /srv\nE", 'ssh h "rm -rf $D"', "ssh h 'rm -rf $D'"),
        # A shell there runs what it reads.
        *("ssh h <<'E'\nrm -rf /srv\nE", "ssh -i k u@h << E\ncd a\ngit reset --hard\nE"),
        *("echo 'rm -rf /srv' | ssh h", "ssh $H <<< 'rm -rf ~'", "timeout 5 ssh h <<E\nreboot\nE"),
        *("adb shell <<'E'\nrm -rf /sdcard/DCIM\nE", "echo 'rm -rf /sdcard/DCIM' | adb -d shell"),
        *("adb shell rm -rf /sdcard/DCIM", "ssh h 'cd /srv && cd a && rm -rf b'"),
        # What stands before and behind the words of a command there runs, too.
        *("ssh h 'A=$(rm -rf /srv) rm -f /srv/x'", "docker exec c sh -c 'rm /a <<< $(rm -rf /d)'"),
        *("ssh h 'rm <<< $(rm -rf /srv) /srv/x'", "ssh h 'rm /a <<E\n$(rm -rf /srv)\nE'"),
        *("ssh h rm -f //etc/x.conf", "ssh LOCALHOST rm /srv/x", "ssh 0 rm /srv/x"),
        *("ssh a@b@localhost rm /srv/x", "ssh ssh://localhost rm /srv/x", "ssh ::1 rm /srv/x"),
        *("ssh $(hostname) 'rm -f /app/x'", 'ssh "$HOSTNAME" rm -f /app/x'),
        *("docker exec c sh -c 'ssh $(hostname) rm /x'", 'ssh h "ssh $(hostname) rm /x"'),
        *("ssh ip6-localhost rm /srv/x", "ssh 0:0:0:0:0:0:0:1 rm /x", "ssh 2130706433 rm /x"),
        *("ssh localhost <<'E'\nrm -f /srv/x\nE", "echo 'rm -f /srv/x' | ssh u@127.0.0.1"),
        *("ssh -oHostname=localhost h 'rm /srv/x'", "ssh -o 'HostName 127.0.0.1' h 'rm /srv/x'"),
        *("ssh -4oHostName=::1 h rm /x", "ssh -o hostname=localhost h <<'E'\nrm -f /srv/x\nE"),
        # Of the text that a shell in a container reads.
        *(f"docker exec -i c sh <<E\n{each}\nE" for each in ("rm -rf /data", "rm -rf /", "reboot")),
        *(
            "docker exec -i c sh <<E\nrm -f /app/x\nE\nrm -f /etc/x",
            "docker exec c sh <<E\n$(rm -rf ~)\nE",
        ),
        *("docker exec -i c sh <<E; rm -f /etc/x\nrm -f /a\nE", "sh <<E\nrm -f /etc/x\nE"),
        "docker run -i -v ~:/h a sh <<E\nrm -rf /h\nE",
        "sh <<E\nrm -f /a/x\nE\ndocker exec -i c sh <<E\nrm -f /a/x\nE",
        # It may have been moved there, too.
        *("ssh h 'mv /srv/a /tmp/x && rm -rf /tmp/x'", "ssh h 'mv /srv/a /tmp; rm -rf /tmp/a'"),
        *(
            "docker exec c mv /d /tmp/x; docker exec c rm -rf /tmp/x",
            "adb shell 'mv $A $B; rm -r /tmp/x'",
        ),
        *(
            "ssh h <<'E'\ncd /tmp/x\nmv /srv/a .\nrm -rf /tmp/x\nE",
            "ssh h 'ln -s /srv /tmp/x; rm -r /tmp/x/'",
        ),
        # `find` may do more than delete the files that it finds.
        *("docker exec c find . -name x -exec rm -rf /data \\;",),
        "kubectl exec p -- find . -name x -exec sh -c 'crontab -r' {} \\;",
        # bash splits the value: a folder of this machine may be among the words.
        *("O='x -v /:/h'; docker run --name $O img rm -rf /h/x", "docker run $I rm -rf /h/x"),
        *("ssh h 'docker run -e $O img rm -rf /h/x'", "docker run img$I rm -rf /h/x"),
        "docker run --privileged img sh -c 'mount /dev/sda1 /mnt; rm -rf /mnt/srv'",
        # It may have been moved there, and be nowhere else.
        *("mv ~/a ~/.cache/t && rm -rf ~/.cache/t", "ln -s ~/a ~/.cache/t; rm -rf ~/.cache/t/"),
        "mount --bind ~/a ~/.cache/t; rm -rf ~/.cache/t",
        *("rm -rf ~/.cache", "rm -rf ~/.cache/*", "rm -rf ~/.cache/../x", "rm -rf ~/.cachex/a"),
        *("rm -rf /var/lib/apt", "rm -rf /var/lib/apt/lists/../../x", "cd ~ && rm -rf .cache"),
        *("rm -rf /var/lib/apt/lists/* /srv", "rm -rf /var/lib/apt/lists/*/../../../dpkg"),
    ],
)
def test_deleting_what_may_be_kept_elsewhere_asks(script: str) -> None:
    """Threat 19: data of volumes, homes and servers, and what is no container's at all."""
    assert asks(script)


@each_row(
    "script",
    [
        *("podman exec toolbox rm -f {}", "docker exec c sh -c 'rm {}'", "ssh other rm -f {}"),
        *('ssh "$H" "rm {}"', "kubectl exec p -- rm {}"),
    ],
)
def test_deleting_a_file_that_is_in_this_home_too_asks(
    monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """A container may share the home, and a name of a machine stand for this one."""
    monkeypatch.setenv("HOME", "/var")

    assert asks(script.format("/var/log"))
    assert asks(script.format("~/log"))
    assert not asks(script.format("/var/nothing"))


@each_row("script", ["rm -rf {}", "rm -rf {}/.git", "rm -rf {}/*", "rm -f {}/*", "rm -rf {}/.."])
def test_deleting_a_workspace_in_a_cache_asks(script: str) -> None:
    """It is a person's work, wherever it lies."""
    root = Path("/home/me/.cache/trees/one")
    reach = Reach(root=root)
    assert judge(script.format(root), CommandRules(), reach).verdict == "ask"
