#!/usr/bin/env bash
# Asks `longhand serve` what its own description (/openapi.json) allows and forbids, with Schemathesis, and checks the answers.
#
#     scripts/serve-properties.sh target/release/longhand
#
# First without a key, then with one. Fails if anything is found. Takes two minutes on two cores. Needs Python's pip: Schemathesis
# is put into target/tools.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
package=schemathesis==4.32.5
tools=$PWD/target/tools/$package
if ! [ -e "$tools/.complete" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --upgrade --target "$tools" "$package"
    touch "$tools/.complete"
fi
home=$(mktemp -d)
server=
trap 'kill $server 2> "$home/nothing" || true; rm -rf "$home"' EXIT
export HOME=$home XDG_CACHE_HOME=$home XDG_STATE_HOME=$home XDG_CONFIG_HOME=$home

cat > "$home/schemathesis.toml" << 'END'
[checks]
# What a model cannot do is refused, and so is a field that the description does not know, if it might change the answer. Both
# are valid by the description. cli/serve/tests/server/description.rs tests that all described fields are taken.
positive_data_acceptance.enabled = false

[[operations]]
include-name = "POST /v1/documents"
# With `name` in the address, the body is the bytes of a file of any type: JSON is not looked into then.
checks.negative_data_rejection.enabled = false
END

# Starts the server with the settings and asks it.
ask() {
    local key=$1
    shift
    env -u LONGHAND_API_KEY ${key:+LONGHAND_API_KEY="$key"} "$program" serve --port 0 --parallel 2 --ctx-size 256 --quiet > "$home/address" &
    server=$!
    local url=
    until [ -n "$url" ]; do
        sleep 0.1
        kill -0 $server
        url=$(grep -o 'http://[0-9.:]*' "$home/address" || true)
    done
    until python3 - "$url" "$key" > "$home/openapi.json" 2> "$home/nothing" << 'END'; do
import json, sys, urllib.request
url, key = sys.argv[1:]
def get(path):
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {key}"})
    return json.load(urllib.request.urlopen(request))
get("/health")
description = get("/openapi.json")
if key:
    # The description is of servers with a key and without. This one refuses who has none.
    description["security"].remove({})
json.dump(description, sys.stdout)
END
        sleep 0.1
        kill -0 $server
    done
    # It leaves a folder where it runs.
    (cd "$home" && PYTHONPATH=$tools timeout 600 "$tools/bin/schemathesis" --config-file "$home/schemathesis.toml" run openapi.json --url "$url" \
        --max-examples 8 --seed 1 --continue-on-failure --request-timeout 60 --generation-database none --warnings off "$@")
    # It is still there, and ends as it should.
    kill $server
    wait $server
}

echo "== without a key"
ask ""
echo "== with a key"
ask secret --header "Authorization: Bearer secret" --phases examples,coverage
