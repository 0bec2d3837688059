#!/bin/sh
# A step of `meson install`: puts the pages of the manual and the scripts for completion in shells
# where man and the shells find them. Argument: the program esctl of the build.
set -eu
esctl=$1
share=$MESON_INSTALL_DESTDIR_PREFIX/share

"$esctl" man --directory "$share/man/man1"
mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$esctl" completion bash > "$share/bash-completion/completions/esctl"
"$esctl" completion zsh > "$share/zsh/site-functions/_esctl"
"$esctl" completion fish > "$share/fish/vendor_completions.d/esctl.fish"
