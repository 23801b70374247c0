#!/bin/bash
# Run a command in a fresh clone, as another user, with the clock in another year, in the same or
# in another system's tree of files. Root runs it, from a clone of this repository:
#
#     tests/machines/elsewhere.sh YEAR USER [COMMAND...]
#
#     YEAR     the clock's year, or "now"
#     USER     who runs the command; an account that does not exist is made in the tree
#     COMMAND  `make test` if there is none; it is run once .venv/installed-test is made
#
# ROOT=/folder names another system's tree, of debootstrap for example. PYTHON names the
# interpreter, for `make`. Nothing of the own system is changed: /etc is a copy, in a mount
# namespace of its own. What is left is the clone, in the tree's /srv: sandboxes replace /var/tmp.
set -eu

year=$1 user=$2
shift 2
[ $# -gt 0 ] || set -- make test
here=$(cd "$(dirname "$0")/../.." && pwd)
root=${ROOT:-/}
python=${PYTHON:-python3}

if [ -z "${IN_NAMESPACE:-}" ]; then
    IN_NAMESPACE=1 exec unshare --mount --propagation private -- "$0" "$year" "$user" "$@"
fi

mkdir -p "${root%/}/srv"
work=$(mktemp -d "${root%/}/srv/elsewhere-$year-$user-XXXX")
git clone --quiet "$here" "$work/clone"
[ ! -d "$here/../shared" ] || cp -r "$here/../shared" "$work/shared"
etc=$work/etc
mkdir "$work/home" "$etc"
mount -t tmpfs -o mode=755 tmpfs "$etc"
cp -a "${root%/}/etc/." "$etc"
cc -shared -fPIC -O2 -o "$etc/clock.so" "$here/tests/machines/clock.c" -ldl
echo 0 > "$etc/clock-shift"
cp -L /etc/resolv.conf /etc/hosts "$etc/"
inner=/srv/$(basename "$work")
[ "$root" = / ] || mount --rbind "$root" "$root"
mount --bind "$etc" "${root%/}/etc"

if [ "$root" != / ]; then
    # Not chroot: in one, the kernel lets nobody make the namespaces that a sandbox consists of.
    for each in proc sys dev; do mount --rbind "/$each" "$root/$each"; done
    mkdir -p "$root/.before"
    cd "$root"
    pivot_root . .before
    umount -l /.before
fi

echo /etc/clock.so > /etc/ld.so.preload
id "$user" > /dev/null 2>&1 || useradd --home-dir "$inner/home" "$user"
chown -R "$user:" "$inner/clone" "$inner/home"
chmod 755 "$inner"
cd "$inner/clone"
as_user=(env -i "HOME=$inner/home" "USER=$user" LANG=C.UTF-8 CI=true
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "PYTHON=$python"
    ${PIP_CERT:+"PIP_CERT=$PIP_CERT"} ${PIP_CONFIG_FILE:+"PIP_CONFIG_FILE=$PIP_CONFIG_FILE"})
[ "$user" = root ] || as_user=(setpriv --reuid "$user" --regid "$user" --init-groups "${as_user[@]}")

# With the real clock: a server's certificate is not valid in every year.
"${as_user[@]}" make .venv/installed-test
if [ "$year" != now ]; then
    echo $(($(date -d "$year-06-15 12:00" +%s) - $(date +%s))) > /etc/clock-shift
fi
echo "$("${as_user[@]}" .venv/bin/python --version), $("${as_user[@]}" id -un), $(date +%F)"
exec "${as_user[@]}" "$@"
