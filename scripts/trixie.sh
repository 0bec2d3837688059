# Sourced by the scripts that build and test on Debian 13 ("trixie") in a root directory of their own,
# on a machine with another release. The root and what ccache keeps for it are in the user's cache.

trixie_directory=${XDG_CACHE_HOME:-$HOME/.cache}/easyscale/trixie

# Runs a command in namespaces of its own, in which it may mount. A user who is not root is root there.
in_namespaces() {  # COMMAND...
  local mapped=()
  [ "$(id -u)" = 0 ] || mapped=(--map-root-user --map-auto)
  unshare "${mapped[@]}" --mount --pid --fork "$@"
}

# Runs a command in the root, in this tree, whose build/ is there the directory BUILD of this one.
in_trixie() {  # BUILD COMMAND...
  local root=$trixie_directory/root build=$1 git
  shift
  git=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null || true)
  mkdir -p build "$build"
  # shellcheck disable=SC2016  # The inner shells expand it.
  in_namespaces bash -euc '
    root=$1 tree=$2 build=$3 cache=$4 git=$5
    place() { mkdir -p "$root$2" && mount --rbind "$1" "$root$2"; }
    # A mount point itself, because buildah changes the mount of its root.
    mount --rbind "$root" "$root"
    place "$tree" "$tree"
    place "$build" "$tree/build"
    [ -z "$git" ] || place "$git" "$git"
    place "$cache" /var/cache/ccache
    place /dev /dev
    place /sys /sys
    if [ -e /etc/resolv.conf ]; then
      touch "$root/etc/resolv.conf"
      mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
    fi
    mount -t proc proc "$root/proc"
    exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      LC_ALL=C.UTF-8 CCACHE_DIR=/var/cache/ccache CCACHE_BASEDIR="$tree" \
      sh -c "cd \"\$0\" && exec \"\$@\"" "$tree" "${@:6}"
  ' in_trixie "$root" "$PWD" "$PWD/$build" "$trixie_directory/ccache" "$git" "$@"
}
