#!/bin/sh
# Installs into a temporary prefix, moves the prefix, builds the template against it by find_package(wmtp), and asks the
# moved program for the new plugin. Usage: installed_template.sh BUILD_FOLDER [CMAKE]
set -eu
build=$1
cmake=${2:-cmake}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME="$folder/cache"

"$cmake" --install "$build" --prefix "$folder/first" > "$folder/install.log" || { cat "$folder/install.log"; exit 1; }
mv "$folder/first" "$folder/moved"
prefix=$folder/moved

cp -r "$prefix/share/wmtp/template" "$folder/mine"
"$cmake" -S "$folder/mine" -B "$folder/mine/build" -DCMAKE_PREFIX_PATH="$prefix"
"$cmake" --build "$folder/mine/build"
test -f "$folder/mine/build/lib/wmtp/plugins/pipelines/focal.so"

"$prefix/bin/wmtp-host" plugins inspect focal --plugin-dir "$folder/mine/build/lib/wmtp/plugins" | tee "$folder/said"
grep -q gamma "$folder/said"
"$prefix/bin/wmtp-host" plugins list --plugin-dir "$folder/mine/build/lib/wmtp/plugins" > "$folder/list"
grep -q focal "$folder/list"
grep -q "$prefix/lib/wmtp/plugins" "$folder/list" || grep -q rho1 "$folder/list"

# Among the host's own: found without a word about where.
"$cmake" --install "$folder/mine/build" --prefix "$prefix"
"$prefix/bin/wmtp-host" plugins inspect focal > /dev/null

# No library of the installation looks for its parts in the build folder or in the current one.
for file in "$prefix"/lib/*.so "$prefix"/lib/wmtp/plugins/*/*.so "$prefix"/bin/wmtp-host; do
  if readelf -d "$file" | grep -E "R(UN)?PATH" | grep -E "$build|::|:\]|\[:"; then
    echo "$file: its run path names the build folder or an empty one" >&2
    exit 1
  fi
done
