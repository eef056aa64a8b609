# Every target works on a fresh clone: what it needs is set up first, once (the stamps remember).
# Recipes are one line each, so that they can be copied into a shell.

PY := .venv/bin/python
UV := .venv/bin/uv pip
ARGS ?=

SETUP := .venv/.stamp
MINISTACK := .venv-ministack/.stamp
NODE := node_modules/.stamp

# What `check` runs, in this order: quick refusals first. Add a target here on the day its machinery exists.
CHECKS := format-check lint types imports test sabotage-sample synth try-bundle deploy-local

# Held by mypy, as far as it exists yet. In tests/typing an unused ignore is a failure, so what must be refused is, too.
TYPED := $(wildcard shared/tenure functions infra app.py examples tests/typing)

# jsii and the CDK's command line would else speak of Node's end of life and phone home.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 18,20
export JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION := 1
export CDK_DISABLE_CLI_TELEMETRY := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## this page
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo; echo '  ARGS="..." is passed on: make test ARGS="-k fence -x"'

##@ Set up
.PHONY: setup setup-ministack setup-node hooks lock
setup: $(SETUP) ## .venv with everything pinned and tenure editable (runs by itself when needed)
setup-ministack: $(MINISTACK) ## .venv-ministack, the AWS emulator in an environment of its own
setup-node: $(NODE) ## the CDK's command line, from npm
hooks: $(SETUP) ## install the git hooks
	.venv/bin/pre-commit install
lock: $(SETUP) ## resolve requirements/*.txt anew
	$(UV) compile pyproject.toml --upgrade --extra dev $(LOCK_FLAGS) -o requirements/dev.txt
	$(UV) compile requirements/ministack.in --upgrade $(LOCK_FLAGS) -o requirements/ministack.txt
	$(UV) compile pyproject.toml --extra worker -c requirements/dev.txt $(LOCK_FLAGS) -o requirements/worker.txt

# One resolution for every Python that is promised; nothing in it tells where packages were fetched.
LOCK_FLAGS := --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header

$(SETUP): requirements/dev.txt pyproject.toml tools/find_python.sh
	test -x $(PY) || "$$(tools/find_python.sh)" -m venv .venv
	test -x .venv/bin/uv || $(PY) -m pip install --quiet --constraint requirements/dev.txt uv
	$(UV) install --quiet --python $(PY) --requirements requirements/dev.txt
	$(UV) install --quiet --python $(PY) --no-deps --editable .
	touch $@

$(MINISTACK): requirements/ministack.txt tools/find_python.sh | $(SETUP)
	test -x .venv-ministack/bin/python || "$$(tools/find_python.sh --anywhere)" -m venv .venv-ministack
	$(UV) install --quiet --python .venv-ministack/bin/python --requirements requirements/ministack.txt
	touch $@

$(NODE): package.json package-lock.json
	npm ci --silent
	touch $@

##@ While you work
.PHONY: format format-check lint types imports quick test ratchet
format: $(SETUP) ## rewrite the layout of every file
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix-only --quiet .
format-check: $(SETUP)
	.venv/bin/ruff format --check .
lint: $(SETUP) ## ruff, spelling, pyproject
	.venv/bin/ruff check .
	.venv/bin/codespell
	.venv/bin/validate-pyproject --disable-plugins setuptools distutils -- pyproject.toml
types: $(SETUP) ## mypy, strict
	.venv/bin/mypy $(TYPED)
imports: $(SETUP) ## the layers (import-linter)
	.venv/bin/lint-imports --no-logo
quick: $(SETUP) ## the tests that take no time
	$(PY) -m pytest -m "not slow and not ministack" -n 2 --dist loadscope $(ARGS)
# Three at once on two cores: the tests of real processes wait for leases most of their time.
test: $(SETUP) $(MINISTACK) ## every test
	$(PY) -m pytest -n 3 --dist loadscope $(ARGS)
ratchet: $(SETUP) ## lower the recorded lengths to what they are now (it never raises one)
	$(PY) -m tests.architecture.ratchet

##@ See it run
.PHONY: demo synth permissions try-bundle deploy-local
demo: $(SETUP) ## the restaurant on the embedded stack
	$(PY) -m examples.restaurant.demo $(ARGS)
synth: $(SETUP) $(NODE) ## the templates of dev, staging and prod, held against cdk-nag and cfn-lint
	PATH="$(CURDIR)/.venv/bin:$$PATH" node_modules/.bin/cdk synth --quiet --no-notices -c env=dev,staging,prod $(ARGS)
	.venv/bin/cfn-lint --ignore-checks W3005 -- cdk.out/*.template.json
permissions: $(SETUP) ## write docs/permissions.md from the templates
	$(PY) -m tools.permissions
try-bundle: $(SETUP) $(MINISTACK) ## the functions' asset under Lambda's own runtime client; its size and import time
	$(PY) -m tools.try_bundle
deploy-local: $(SETUP) $(MINISTACK) $(NODE) ## a real `cdk deploy`, against a local emulator
	$(PY) -m tools.deploy_local $(ARGS)

##@ Prove it
.PHONY: sabotage sabotage-sample simulate interleave conformance soak check
sabotage: $(SETUP) $(MINISTACK) ## break the rules one by one: each must turn some test red
	$(PY) -m tools.sabotage $(ARGS)
simulate: $(SETUP) ## the long run of the simulation; ARGS="--seeds 10000", ARGS="--seed 4711" for one again
	$(PY) -m tools.simulate $(ARGS)
interleave: $(SETUP) ## every order of calls of a few workers, up to a bound; ARGS="--bound 3 --scene heartbeat", ARGS="--random 20000"
	$(PY) -m tools.interleave $(ARGS)

sabotage-sample: $(SETUP) $(MINISTACK) ## some of them, drawn anew each day
	$(PY) -m tools.sabotage --sample 8 --seed "$$(date +%j)"
conformance: $(SETUP) $(MINISTACK) ## the contract suite against a backend of your choice
	.venv/bin/tenure conformance $(ARGS)
soak: $(SETUP) $(MINISTACK) ## half an hour of real workers on ministack, killed at random, and an audit of what is left
	$(PY) -m tools.soak $(ARGS)
check: $(CHECKS) ## everything that must hold before a commit is shared; all that CI runs

##@ Tidy
.PHONY: clean
clean: ## remove what was built and cached; keep the environments
	rm -rf build dist cdk.out .work .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -not -path './.venv*' -not -path './node_modules/*' -prune -exec rm -rf {} +
