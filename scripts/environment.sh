# Sourced by the scripts that make virtual environments for tests, which are in the user's cache.

# The Python of an environment, which may not exist yet.
environment_python() {  # NAME
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/easyscale/$1/bin/python3"
}

# Makes the environment, or completes it. A copy of the requirements is stored in it at the end, so
# an incomplete environment is completed. An environment for another version of Python than the
# system has now is made anew.
make_environment() {  # NAME REQUIREMENTS...
  local python environment requirements version
  python=$(environment_python "$1")
  environment=$(dirname "$(dirname "$python")")
  shift
  scripts/setup --install-only python3-venv
  version=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  [ -d "$environment/lib/$version" ] || rm -rf "$environment"
  requirements=$(cat "$@")
  [ "$requirements" = "$(cat "$environment/made_from" 2>/dev/null)" ] && return
  [ -x "$python" ] || /usr/bin/python3 -m venv "$environment"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    -r <(echo "$requirements")
  echo "$requirements" >"$environment/made_from"
}
