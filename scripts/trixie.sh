# Sourced by the scripts that build and test on Debian 13 ("trixie") in a root directory of their own,
# on a machine with another release. The root is a folder of the user's cache. Beside it is what the
# programs that run in it keep in a cache: that of ccache, and the environments of scripts/setup_pytorch.

trixie_directory=${XDG_CACHE_HOME:-$HOME/.cache}/easyscale/trixie
trixie_cache=$trixie_directory/cache

# Runs a command in namespaces of its own, in which it may mount. A user who is not root is root there.
in_namespaces() {  # COMMAND...
  local mapped=()
  [ "$(id -u)" = 0 ] || mapped=(--map-root-user --map-auto)
  unshare "${mapped[@]}" --mount --pid --fork "$@"
}

# Runs a command in the root, in this tree, whose build/ is there the directory BUILD of this one. It
# reaches the network as this machine does.
in_trixie() {  # BUILD COMMAND...
  local root=$trixie_directory/root build=$1 git name passed=()
  shift
  git=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null || true)
  for name in $(compgen -e); do
    case $name in
      PIP_INDEX_URL | *_proxy | *_PROXY) passed+=("$name=${!name}") ;;
    esac
  done
  mkdir -p build "$build"
  # shellcheck disable=SC2016  # The inner shells expand it.
  in_namespaces bash -euc '
    root=$1 tree=$2 build=$3 cache=$4 git=$5
    place() { mkdir -p "$root$2" && mount --rbind "$1" "$root$2"; }
    # A mount point itself, because buildah changes the mount of its root.
    mount --rbind "$root" "$root"
    place "$cache" /root/.cache
    place "$tree" "$tree"
    place "$build" "$tree/build"
    [ -z "$git" ] || place "$git" "$git"
    place /dev /dev
    place /sys /sys
    for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
      if [ -e "$file" ]; then
        mkdir -p "$root${file%/*}"
        touch "$root$file"
        mount --bind "$file" "$root$file"
      fi
    done
    mount -t proc proc "$root/proc"
    exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      LC_ALL=C.UTF-8 CCACHE_BASEDIR="$tree" "${@:6}"
  ' in_trixie "$root" "$PWD" "$PWD/$build" "$trixie_cache" "$git" \
    "${passed[@]}" sh -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"
}
