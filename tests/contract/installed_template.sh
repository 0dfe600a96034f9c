#!/bin/sh
# Installs into a temporary prefix, moves the prefix, lets the moved program make a plugin, builds and tests it as
# it is, asks the program for the new plugin, and sees it change a run.
# Usage: installed_template.sh BUILD_FOLDER [CMAKE]
set -eu
build=$1
cmake=${2:-cmake}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if command -v ccache > /dev/null; then  # LibTorch's headers take 20 s to compile
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$folder" CCACHE_DIR="$(ccache --get-config cache_dir)"
fi
export XDG_CACHE_HOME="$folder/cache"

"$cmake" --install "$build" --prefix "$folder/first" > "$folder/install.log" || { cat "$folder/install.log"; exit 1; }
mv "$folder/first" "$folder/moved"
prefix=$folder/moved

"$prefix/bin/wmtp-host" plugins new ramp --kind pipeline -o "$folder/mine" --quiet
"$cmake" -S "$folder/mine" -B "$folder/mine/build"
"$cmake" --build "$folder/mine/build"
"$(dirname "$(command -v "$cmake")")/ctest" --test-dir "$folder/mine/build" --output-on-failure
test -f "$folder/mine/build/lib/wmtp/plugins/pipelines/ramp.so"

"$prefix/bin/wmtp-host" plugins inspect ramp --plugin-dir "$folder/mine/build/lib/wmtp/plugins" | tee "$folder/said"
grep -q width "$folder/said"
"$prefix/bin/wmtp-host" plugins list --plugin-dir "$folder/mine/build/lib/wmtp/plugins" > "$folder/list"
grep -q ramp "$folder/list"
grep -q "$prefix/lib/wmtp/plugins" "$folder/list" || grep -q rho1 "$folder/list"

# It changes a run: the same three steps with every token alike and with the new weights. The
# unweighted loss is equal before the first update and differs after it.
run() {
  cat > "$folder/$1.toml" <<END
name = "$1"
seed = 3
[pipeline]
plugin = "$1"
[model]
dim = 16
layers = 3
heads = 2
vocab_size = 32
future_tokens = 2
[data]
kind = "random"
[train]
steps = 3
batch_size = 2
sequence_length = 16
[parallel]
device = "cpu"
END
  "$prefix/bin/wmtp-host" run "$folder/$1.toml" --plugin-dir "$folder/mine/build/lib/wmtp/plugins" \
    --db "$folder/runs.db" > "$folder/$1.log" 2>&1 || { cat "$folder/$1.log"; exit 1; }
}
run baseline
run ramp
ce="SELECT m.value FROM metrics m JOIN runs r ON r.id = m.run_id
  WHERE m.name = 'train/ce' AND m.step = %d AND r.name = '%s'"
ce_of() { "$prefix/bin/wmtp-host" sql "$(printf "$ce" "$1" "$2")" --csv --db "$folder/runs.db" | tail -n 1; }
for step in 1 2 3; do echo "train/ce of step $step: baseline $(ce_of $step baseline), ramp $(ce_of $step ramp)"; done
test -n "$(ce_of 3 ramp)"
test "$(ce_of 1 baseline)" = "$(ce_of 1 ramp)"
test "$(ce_of 2 baseline)" != "$(ce_of 2 ramp)"
test "$(ce_of 3 baseline)" != "$(ce_of 3 ramp)"

# Among the host's own: found without a word about where.
"$cmake" --install "$folder/mine/build" --prefix "$prefix"
"$prefix/bin/wmtp-host" plugins inspect ramp > /dev/null

# No library of the installation looks for its parts in the build folder or in the current one.
for file in "$prefix"/lib/*.so "$prefix"/lib/wmtp/plugins/*/*.so "$prefix"/bin/wmtp-host; do
  if readelf -d "$file" | grep -E "R(UN)?PATH" | grep -E "$build|::|:\]|\[:"; then
    echo "$file: its run path names the build folder or an empty one" >&2
    exit 1
  fi
done
