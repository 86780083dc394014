#!/usr/bin/env bash
# `make localstack-test`: finds or starts an emulator of AWS, then deploys to it
# and tests (localstack/e2e/deployed). What was started here is stopped at the end.
#
#   something answers on 127.0.0.1:4566    it is used and left running
#   Docker runs                            LocalStack, by localstack/compose.yaml
#   else                                   ministack, in localstack/.venv (needs python3 with venv)
set -euo pipefail
cd "$(dirname "$0")/.."

# LOCALSTACK_PORT moves the emulator that is started here, or names another one that runs.
port=${LOCALSTACK_PORT:-4566}
export AWS_ENDPOINT_URL=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN

venv=localstack/.venv
pins=localstack/requirements.txt
log=$(mktemp)
server=
composed=

stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	[ -z "$composed" ] || docker compose -f localstack/compose.yaml down --volumes >/dev/null 2>&1 || true
	rm -f "$log"
}
trap stop EXIT

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

await() { # until the port answers, or the server has ended
	for _ in $(seq 1 240); do
		listening && return 0
		[ -z "$server" ] || kill -0 "$server" 2>/dev/null || break
		sleep 0.25
	done
	echo "localstack: nothing answers on port $port" >&2
	cat "$log" >&2
	return 1
}

if listening; then
	echo "localstack: using what answers on port $port"
elif [ "$port" = 4566 ] && command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
	echo "localstack: starting LocalStack by compose"
	composed=1
	docker compose -f localstack/compose.yaml up --detach --wait
else
	if ! cmp -s "$pins" "$venv/localstack.txt"; then
		echo "localstack: installing ministack into $venv"
		[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
		"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"
		cp "$pins" "$venv/localstack.txt"
	fi
	echo "localstack: starting ministack on port $port"
	# The server hands its own AWS_ENDPOINT_URL on to the functions.
	GATEWAY_PORT=$port "$venv/bin/ministack" >"$log" 2>&1 &
	server=$!
	await
fi

status=0
go run ./localstack/e2e/deployed || status=$?
if [ "$status" -ne 0 ] && [ -n "$server" ]; then
	echo "localstack: the emulator printed last:"
	tail -n 40 "$log"
fi
exit "$status"
