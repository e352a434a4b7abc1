# Everything runs in .venv; the first target that needs it makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS ?= train,ocr,dev
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test check format bench clean help
help:
	@echo "make demo | test | check | format | bench | accept-N (ONLY=item BREAK=item QUICK=1 FRESH=1) | setup"

setup: $(VENV)/installed
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; call make PYTHON=python3.11 ...")'
	@start=$$(date +%s); \
	$(PYTHON) -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]" && \
	touch $@ && echo "installed in $$(( $$(date +%s) - start )) s"

demo: setup
	$(BIN)/vlagent demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m benchmarks

accept-%: setup
	$(BIN)/python -m accept $* $(if $(BREAK),--break $(BREAK)) $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick) $(if $(FRESH),--fresh)

clean:
	rm -rf $(VENV) runs .accept

# Contract tests with veRL, which needs an older transformers than we do: an environment of its own.
VERL_VENV ?= .venv-verl
VERL_NEEDS := tests/integrations/verl/requirements.txt
.PHONY: test-verl
test-verl: $(VERL_VENV)/installed
	HF_HUB_OFFLINE=1 $(VERL_VENV)/bin/python -m pytest -rs -p no:cacheprovider tests/integrations/verl

$(VERL_VENV)/installed: $(VERL_NEEDS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13) and "veRL needs Python 3.11 or 3.12; call make test-verl PYTHON=python3.11")'
	@start=$$(date +%s); \
	$(PYTHON) -m venv $(VERL_VENV) && \
	$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep ^torch== $(VERL_NEEDS))" && \
	$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $(VERL_NEEDS) -e . && \
	touch $@ && echo "installed veRL in $$(( $$(date +%s) - start )) s"
