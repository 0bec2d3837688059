# Sourced by the scripts here: what they answer to --help, and what they refuse. SCRIPT is the path of
# the script, whose first comment is its usage.

# The first comment of SCRIPT.
usage() {  # SCRIPT
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"
}

# With -h or --help anywhere among the arguments: prints the usage, and the script ends.
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

# Refuses an option that `meson test` does not know before anything is built. Without Meson it cannot
# be asked, and refuses by itself later.
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
