# Sourced by a user, in bash or zsh: puts what scripts/setup and scripts/setup_pytorch have made on the
# path of this terminal. That is esctl, easyscaled, a Python with PyTorch, and the package easyscale.
# EASYSCALE_CLONE is then the path of this clone, in which ninja uses what other clones have compiled.
#
#   . scripts/activate.sh
#
# ES_BUILD names another build directory than build/.

activate_easyscale() {  # CLONE
  local build=${ES_BUILD:-$1/build} python
  python=$("$1/scripts/setup_pytorch" --where)
  [ ! -x "$python" ] || PATH=$(dirname "$python"):$PATH
  PATH=$build/actors/esctl:$build/actors/easyscaled:$PATH
  PYTHONPATH=$1/python${PYTHONPATH:+:$PYTHONPATH}
  export PATH PYTHONPATH EASYSCALE_CLONE=$1 CCACHE_BASEDIR=$1
}
activate_easyscale "$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)"
unset -f activate_easyscale
