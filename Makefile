# The two commands that matter: `make demo` and `make test`. Both begin with `make setup`.
PYTHON ?= python3
PARTS ?= quick
VENV := .venv
STAMP := $(VENV)/.fleet-setup
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: setup demo test check unit torture bench lock parts docs clean
.DELETE_ON_ERROR:

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fleet needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setup: making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup
	@$(VENV)/bin/fleet demo

# PARTS=quick installs what installs in seconds, and leaves out what needs more or takes long;
# PARTS=all builds the slow parts too, and then nothing may be left out.
test: setup
	@PARTS=$(PARTS) $(VENV)/bin/python tools/check.py

unit: setup
	@$(VENV)/bin/python -m pytest tests/unit

check: setup
	@$(VENV)/bin/python tools/check.py lint

# The promises under faults, in large: about two hours.
torture: setup
	@$(VENV)/bin/python tools/torture.py

bench: setup
	@$(VENV)/bin/python tools/bench.py

parts: setup
	@$(VENV)/bin/python tools/parts.py install $(PARTS)

docs: setup
	@$(VENV)/bin/python tools/reference.py

lock: setup
	cd requirements && for part in run dev parts-node parts-aider parts-go; do $(CURDIR)/$(VENV)/bin/$(LOCK) $$part.in -o $$part.txt; done
	cd requirements && for part in parts-miniaudio parts-smollm2; do $(CURDIR)/$(VENV)/bin/$(LOCK) --no-deps $$part.in -o $$part.txt; done
	cd requirements && $(CURDIR)/$(VENV)/bin/$(LOCK) litellm.in -o ../src/fleet/gateway/litellm.txt

clean:
	rm -rf $(VENV)
