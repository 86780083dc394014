#!/usr/bin/env bash
# Runs the endpoint tests, and the whole system through a bad network, against
# each DynamoDB emulator (or those named as arguments): installs them into
# localstack/.venv, starts one on a free port, tests, stops it. Needs python3
# with venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=localstack/.venv
pins=localstack/differential/requirements.txt
log=$(mktemp)
server=

stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	fi
}
trap 'stop; rm -f "$log"' EXIT

if ! cmp -s "$pins" "$venv/differential.txt"; then
	echo "differential: installing the emulators into $venv"
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"
	cp "$pins" "$venv/differential.txt"
fi

free_port() {
	"$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

failed=0
[ $# -gt 0 ] || set -- ministack moto
for engine in "$@"; do
	port=$(free_port)
	url=http://127.0.0.1:$port
	case $engine in
	ministack) GATEWAY_PORT=$port AWS_ENDPOINT_URL=$url "$venv/bin/ministack" >"$log" 2>&1 & ;;
	moto) "$venv/bin/moto_server" -H 127.0.0.1 -p "$port" >"$log" 2>&1 & ;;
	*) echo "differential: no engine $engine" >&2 && exit 2 ;;
	esac
	server=$!
	up=
	for _ in $(seq 1 120); do
		if "$venv/bin/python" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; then
			up=1
			break
		fi
		kill -0 "$server" 2>/dev/null || break
		sleep 0.25
	done
	if [ -z "$up" ]; then
		echo "differential: $engine does not answer" >&2
		cat "$log" >&2
		exit 1
	fi
	echo "differential: $engine"
	if ! DYNAMODB_ENDPOINT=$url DYNAMODB_ENGINE=$engine go test ./localstack/differential -run Endpoint -count=1; then
		failed=1
		tail -n 15 "$log" >&2
	fi
	# The whole system through a bad network. moto knows no client request tokens,
	# without which no transaction can be repeated safely.
	if [ "$engine" = ministack ]; then
		if ! DYNAMODB_ENDPOINT=$url go test ./localstack/differential/roundtrip -run Endpoint -count=1 -timeout 6m -v |
			grep -v '^=== '; then
			failed=1
			tail -n 15 "$log" >&2
		fi
	fi
	stop
done
exit "$failed"
