# Everything a person or CI does with this repository is a target here.
# `make run` and `make test` need nothing but Go.

.DEFAULT_GOAL := help

GO      ?= go
# Extra arguments of `make test`, for example TESTFLAGS='-race -run Ledger'.
TESTFLAGS ?=
# Arguments of the commands, for example `make contract ARGS=-v`.
ARGS    ?=

TOOL     = $(GO) tool -modfile=tools.mod
# The folders that hold Go code; dot folders are named because ./... skips them.
GODIRS   = $(wildcard .ci cmd events functions infra localstack pkg)
PACKAGES = ./... ./.ci/vuln

.PHONY: help run demo test contract bench build fmt fmt-check vet lint vuln check

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z0-9-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## serve the whole stack on this machine (PORT, DATA_DIR, LANEKEEPER_CONFIG)
	@$(GO) build -o build/lanekeeper-local ./localstack/run
	@exec build/lanekeeper-local $(ARGS)

demo: ## play the burst test on a stack of its own and print the table
	$(GO) run ./cmd/demo $(ARGS)

test: ## run every test that needs no server beyond what it starts itself
	$(GO) test $(TESTFLAGS) $(PACKAGES)

contract: ## hold the HTTP API to its contract (BASE_URL, or a stack of its own)
	$(GO) run ./cmd/contract $(ARGS)

bench: ## measure decision, handler, the whole road, and units per task
	$(GO) run ./cmd/bench $(ARGS)

build: ## build the arm64 Lambda packages into build/<function>.zip
	$(GO) run ./functions/internal/pack -o build $(ARGS)

fmt: ## format the Go code
	gofmt -w $(GODIRS)

fmt-check: ## fail when Go code is not formatted
	@files="$$(gofmt -l $(GODIRS))" || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted (run make fmt):"; echo "$$files"; exit 1; fi

vet: ## run go vet
	$(GO) vet $(PACKAGES)

lint: ## run the pinned golangci-lint (.golangci.yml); the first run builds it
	$(TOOL) golangci-lint run $(PACKAGES)

vuln: ## look for known vulnerabilities in what the code calls
	$(GO) run ./.ci/vuln

check: ## all checks: format, vet, lint, vulnerabilities, tests, contract, demo, simulation, end to end, stacks (Node)
	@.ci/step fmt-check
	@.ci/step vet
	@.ci/step lint
	@.ci/step vuln
	@.ci/step test
	@.ci/step contract
	@.ci/step demo
	@.ci/step crash
	@.ci/step histories
	@.ci/step race
	@.ci/step mutants
	@.ci/step e2e
	@.ci/step infra-test
	@echo "check: passed"

.PHONY: differential
differential: ## compare the embedded table with DynamoDB emulators over HTTP, run the system through a bad network (python3; ARGS='ministack moto')
	localstack/differential/endpoint.sh $(ARGS)

# The environment of the targets below: a file of infra/environments.
ENV ?= dev
# The CDK command line, pinned by infra/package-lock.json. It stands outside the
# Go folders because it carries templates that are no Go.
CDK_DIR = .cache/cdk
CDK     = $(CDK_DIR)/node_modules/.bin/cdk

.PHONY: assemble synth infra-test deploy destroy cdk
assemble: ## build the packages of environment ENV into build/ENV
	$(GO) run ./infra/assemble -env infra/environments/$(ENV).yaml

synth: assemble ## write the CloudFormation of environment ENV into cdk.out/ENV (Node; no Docker)
	$(GO) build -tags cdk -o build/infra-app ./infra
	JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION=1 CDK_OUTDIR=cdk.out/$(ENV) build/infra-app -env infra/environments/$(ENV).yaml

infra-test: ## hold the stacks to the deployment's rules, AWS's own and the golden files (Node; ARGS=-update)
	$(GO) vet -tags cdk ./infra/...
	JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION=1 $(GO) test -tags cdk $(TESTFLAGS) ./infra/stacks $(ARGS)

cdk: $(CDK) ## install the pinned CDK command line (npm)

$(CDK): infra/package.json infra/package-lock.json
	mkdir -p $(CDK_DIR)
	cp infra/package.json infra/package-lock.json $(CDK_DIR)/
	npm --prefix $(CDK_DIR) ci --no-audit --no-fund --silent

deploy: synth cdk ## deploy environment ENV to the AWS account of your credentials
	$(CDK) deploy --app cdk.out/$(ENV) --all --require-approval never

destroy: cdk ## remove environment ENV's stacks (prod keeps its table)
	$(CDK) destroy --app cdk.out/$(ENV) --all

.PHONY: e2e localstack-test
e2e: ## run the end-to-end suite on the embedded engine (or on BASE_URL)
	$(GO) run ./localstack/e2e/run $(ARGS)

localstack-test: cdk ## deploy all stacks to an emulator of AWS on port 4566 and run the end-to-end suite there (Node, python3 or Docker)
	$(GO) build -tags cdk -o build/infra-app ./infra
	localstack/localstack-test.sh

.PHONY: crash histories race mutants soak
# How many random histories, and from which seed on; how long a soak lasts.
SEEDS   ?= 10000
FIRST   ?= 1
MINUTES ?= 10
SIM      = @GO=$(GO) pkg/simtest/sim.sh

crash: ## crash before and after every outside call of the simulated scenarios
	$(SIM) -run '^TestCrashEnumeration$$' -every 1 $(ARGS)

histories: ## run SEEDS random histories with all faults on (from FIRST; one with its trace: ARGS=-seed=N)
	$(SIM) -run '^TestHistories$$' -seeds $(SEEDS) -first $(FIRST) $(ARGS)

race: ## run a hundred random histories under the race detector (cgo: a C compiler)
	@GO=$(GO) .ci/cc
	@CGO_ENABLED=1 GO=$(GO) pkg/simtest/sim.sh -race -run '^TestHistories$$' -seeds 100 -first $(FIRST) $(ARGS)

mutants: ## leave out each condition term of the operations and each check of the services; every one must be noticed
	$(SIM) -run '^(TestRules|TestMutants|TestForgottenChanges|TestServiceMutants)$$' -mutants $(ARGS)

soak: ## go on with new random histories for MINUTES
	$(SIM) -run '^TestHistories$$' -minutes $(MINUTES) -first $$(date +%s) $(ARGS)

.PHONY: fair
fair: ## play loads with and without the fair order, on a virtual clock and for four minutes in real time (ARGS=-quick)
	$(GO) run ./cmd/fair $(ARGS)

.PHONY: kill
kill: ## kill -9 the embedded engine ten times amid 1,000 tasks and compare all accounts; purge its queues amid work
	$(GO) test ./localstack/kill -v -count=1 $(ARGS)

.PHONY: outage
outage: ## measure in real time what other work feels of a downstream that is out for a minute (about 6 min; ARGS='-outage 10s')
	@$(GO) run ./localstack/outage $(ARGS)

.PHONY: cost
cost: ## print what tasks, lanes and metrics cost on AWS (ARGS='-o docs/cost.md' writes it down)
	@$(GO) run ./cmd/cost $(ARGS)

.PHONY: coldstart
coldstart: ## start the admission binary 50 times: time to its first poll, and no network call before (ARGS='-n 10')
	@$(GO) run ./localstack/coldstart $(ARGS)
