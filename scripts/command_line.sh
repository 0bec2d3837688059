# Sourced by the other scripts: how they answer --help, which arguments they refuse, and what ccache
# is told. SCRIPT is the path of the script, whose first comment is its usage.

# Files of groups (`unity` in meson.build) contain absolute paths. With this a second clone finds what
# the first one has compiled.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}

# The first comment of SCRIPT.
usage() {  # SCRIPT
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"
}

# Prints the usage and ends the script if -h or --help is among the arguments.
answer_help() {  # SCRIPT ARGUMENT...
  local script=$1 word
  shift
  for word in "$@"; do
    case $word in
      -h | --help)
        usage "$script"
        exit 0
        ;;
    esac
  done
}

refuse() {  # SCRIPT WORD
  echo "scripts/$(basename "$1"): unknown argument \"$2\" (see scripts/$(basename "$1") --help)" >&2
  exit 2
}

# Refuses an option that `meson test` does not know before anything is built. Without Meson the
# option cannot be checked here, and the script refuses it later.
check_meson_options() {  # SCRIPT ARGUMENT...
  local script=$1 word known
  shift
  command -v meson >/dev/null || return 0
  known=$(meson test --help)
  for word in "$@"; do
    case $word in
      --*) grep -qE -- "(^|[ ,])${word%%=*}([ ,=]|\$)" <<<"$known" || refuse "$script" "$word" ;;
      -*) grep -qE -- "(^|[ ,])${word:0:2}([ ,=]|\$)" <<<"$known" || refuse "$script" "$word" ;;
    esac
  done
}
