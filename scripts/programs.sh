# Sourced by the scripts that pack the built programs. ES_BUILD names another build directory than
# build/.

built_programs=("${ES_BUILD:-build}/actors/esctl/esctl" "${ES_BUILD:-build}/actors/easyscaled/easyscaled")

# Copies the programs into a directory, stripped.
install_programs() {  # DIRECTORY
  local program megabytes_max=40
  mkdir -p "$1"
  for program in "${built_programs[@]}"; do
    [ -x "$program" ] || {
      echo "$program: not here; run scripts/setup" >&2
      exit 1
    }
    strip --strip-unneeded -R .comment -R .note -o "$1/$(basename "$program")" "$program"
  done
  if find "$1" -type f -size +${megabytes_max}M | grep -q .; then
    echo "A stripped program has more than $megabytes_max MB:" >&2
    ls -l "$1" >&2
    exit 1
  fi
}

# Prints the libraries that the programs load.
libraries_of() {  # PROGRAM...
  ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p' | sort -u
}

# Prints what is part of the program itself and comes from another Debian package: the charts of the
# web page (actors/service/meson.build).
embedded_files() {
  echo /usr/share/javascript/dygraphs/dygraph.min.js
}

# Copies the licence of a library's Debian package to DIRECTORY/PACKAGE/copyright.
copy_licence() {  # LIBRARY DIRECTORY
  local package
  # Packages name the place before or after the merge of /lib and /usr/lib.
  package=$(dpkg-query --search "*${1#/usr}" 2>/dev/null | sed -n '1s/[:,].*//p' || true)
  if [ -f "/usr/share/doc/$package/copyright" ]; then
    mkdir -p "$2/$package"
    cp -L "/usr/share/doc/$package/copyright" "$2/$package/"
  fi
}
