# Two commands are enough: `make up` runs the fleet, `make test` runs every check there is.

CARGO ?= cargo
# Tests stop real processes at named steps; only this build has the steps in it.
TEST_FEATURES := --features giga/failpoints,giga/nats
# Most tests wait more than they compute: two at a time for each core, and one more, keep the machine busy.
TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN) + 1)))
# Installs the programs that tests run, and lists the skipped tests at the end.
WITH_TOOLS := scripts/report-skipped scripts/with-postgres scripts/with-git-lfs scripts/with-tmux scripts/with-engines \
  scripts/with-api-tools scripts/with-mcp-client scripts/with-nats scripts/with-netns scripts/with-chromium
TEST_ENGINES := $(CARGO) test --locked $(TEST_FEATURES) -p giga --test it -- real_engines

# Tests that need no server, no repository and no process: rules, golden files, in-memory adapters. Half a minute.
QUICK_TESTS := '(kind(lib) | kind(bin) | package(domain) | package(scheduler) | package(broker)) - test(/^postgres::/)'

# What the web UI is built from.
WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' -not -path 'web/e2e/*')

.DELETE_ON_ERROR:

.PHONY: up build web web-if-possible test test-web test-cloud test-keda screenshots test-engines test-api test-docs soak soak-network check-deploy check fmt lint rows coverage-table deny quick unit tools

up: tools web-if-possible
	@$(CARGO) run --profile quick --locked -p giga -- up --demo

build: tools web-if-possible
	$(CARGO) build --release --locked -p giga --features cloud-storage

# The web UI, for the next build of giga: only if its sources are newer.
web: web/dist/index.html

web/dist/index.html: $(WEB_SOURCES) scripts/build-web
	@scripts/build-web

# Everything else works without it.
web-if-possible:
	@if ! command -v npm >/dev/null; then \
	  echo "npm is not installed, so giga is built without its web UI (install Node.js 20.19 or newer for it)" >&2; \
	elif ! $(MAKE) --no-print-directory web; then \
	  echo "the web UI cannot be built, so giga is built without it (see above; make web tries again)" >&2; \
	fi

test: tools fmt lint rows unit

# The fast loop.
check: tools fmt lint rows quick

rows:
	@scripts/check-rows

# Licences, sources, duplicates and advisories of the dependencies.
deny:
	@scripts/deny

# Which tests cite which row of the specification.
coverage-table:
	@scripts/coverage-table

quick:
	$(CARGO) nextest run --workspace --locked $(TEST_FEATURES) -E $(QUICK_TESTS)

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked $(TEST_FEATURES) -- -D warnings

# nextest runs each test in a process of its own, several at a time; plain `cargo test` does when it is not there. The
# tests start a PostgreSQL of their own, and run the real git-lfs, claude, codex and schemathesis; the scripts install the
# programs, or report that they are missing; the skipped tests are listed at the end. GIGA_REQUIRE=postgres,landlock,root,
# engines,lfs,api-tools,chromium,netns,rustup,home makes skips of these failures.
unit:
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(WITH_TOOLS) $(CARGO) nextest run --workspace --locked $(TEST_FEATURES) --test-threads $(TEST_THREADS); \
	else \
	  echo "cargo-nextest is not installed (cargo install cargo-nextest --locked): using cargo test, which is slower" >&2; \
	  $(WITH_TOOLS) $(CARGO) test --workspace --locked $(TEST_FEATURES); \
	fi

# Artifacts, logs and evidence in an object store. In a build of its own, because others do without its dependencies: not
# part of `unit`, for which it would compile a few minutes more.
test-cloud:
	scripts/with-azurite $(CARGO) nextest run -p store --locked --features object-store -E 'test(/^azurite::/)'

# KEDA's external scaler, asked by a client of gRPC. In a build of its own, as above.
test-keda:
	$(CARGO) nextest run -p scaler --locked --features test-grpc

# The web UI in a browser, on a real fleet. Part of `unit` too.
test-web: tools
	scripts/with-chromium $(CARGO) nextest run --workspace --locked $(TEST_FEATURES) --no-capture -E 'test(/^web::/)'

# Pictures of the web UI for the README, from a fleet with samples.
screenshots: tools
	$(CARGO) build --locked -p giga
	scripts/with-tmux scripts/with-chromium node web/e2e/screenshots.mjs docs/images

# The real claude and codex through a whole fleet, against our stand-in of their APIs: the oldest supported and the last
# tested version of each, both pinned in scripts/with-engines. `unit` runs the last tested versions, and of the oldest ones
# a run and its resumption. `NEWEST=1` runs the newest published versions instead.
test-engines: tools
ifdef NEWEST
	ENGINES=newest scripts/with-engines $(TEST_ENGINES)
else
	ENGINES=oldest scripts/with-engines $(TEST_ENGINES)
	ENGINES=tested scripts/with-engines $(TEST_ENGINES)
endif

# The API by its description alone, at length: schemathesis as admin, operator, viewer and factory, and a generated
# TypeScript client. A short form of it is part of `unit`.
test-api: tools
	GIGA_TEST_API_EXAMPLES=30 scripts/with-api-tools $(CARGO) test --locked $(TEST_FEATURES) -p giga --test it -- api_tools

# Every shell command in the README and the how-tos, in a scratch directory. Part of `unit` too.
test-docs: tools
	$(CARGO) test --locked $(TEST_FEATURES) -p giga --test it -- docs::

# Longer runs: every engine version, the API at length, the object store, and the crash tests ten times with all their
# kills.
soak: test-engines test-api test-cloud test-keda soak-network
	GIGA_SOAK=1 scripts/with-postgres scripts/with-git-lfs $(CARGO) nextest run --workspace --locked $(TEST_FEATURES) --stress-count 10 -E 'test(/crash::/)'

# A fleet on a network that fails, at random from a printed seed, for half an hour. GIGA_SOAK_SECONDS sets another time,
# GIGA_NETWORK_SEED repeats a seed.
soak-network: tools
	GIGA_SOAK=1 scripts/with-postgres scripts/with-nats scripts/with-netns $(CARGO) nextest run --workspace --locked $(TEST_FEATURES) --no-capture -E 'test(/^network::/)'

# deploy/ with the tools of its formats, which are installed: the chart rendered, schemas, linters.
check-deploy:
	@scripts/check-deploy

# What cannot be had from Cargo, named clearly.
tools:
	@command -v $(CARGO) >/dev/null || { echo "error: Rust is needed: install it with rustup, then run this again" >&2; exit 1; }
	@command -v git >/dev/null || { echo "error: git 2.38 or newer is needed: install it with your package manager" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "error: a C compiler is needed to build the embedded database: install gcc or clang" >&2; exit 1; }
