# What people and machines run. `make test` prepares a bare Debian 12 with Rust and Go by itself.

.PHONY: help quick test lint bench docs dist image chart deb rpm release interop cluster crash compare handlers abuse soak tenants tools coredns advisories clean-tools
.NOTPARALLEL:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]*:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

quick: ## what takes seconds once it is built: format, units, example zones, documents, tidy rules
	cargo fmt --all --check
	NO_INSTALL=1 ALLOW_MISSING=1 tools/with-tools dig,kdig tools/run-tests quick

test: ## all tests; installs what they need; fails if something cannot be had, unless ALLOW_MISSING=1
	tools/with-tools all tools/run-tests

lint: ## format, clippy, documentation, dependencies, advisories, import circles, scripts
	tools/lint

interop: ## tests with real secondaries: BIND, Knot, NSD, PowerDNS, Unbound
	tools/with-tools bind,knot,nsd,pdns,unbound,dig,kdig,faketime tools/run-tests interop

cluster: ## tests with a real API server, and the secondaries behind it
	tools/with-tools openssl,apiserver,controllers,crds,helm,namespaces,dig,curl,bind,knot,nsd,pdns,unbound tools/run-tests cluster

crash: ## tests that kill the server at bad moments
	tools/with-tools dig tools/run-tests crash

compare: ## zonewright beside a real CoreDNS on generated clusters (COMPARE_CLUSTERS=200 COMPARE_SETS=21: all night)
	tools/with-tools openssl,namespaces,apiserver,controllers,coredns tools/run-tests compare

handlers: ## each handler beside that of a real CoreDNS (HANDLERS_ONLY=TEXT: cases whose names contain it)
	tools/with-tools coredns tools/run-tests handlers

abuse: ## strangers do what they can for 3 minutes, beside a secondary and a resolver (ABUSE_SECONDS=30: shorter)
	tools/with-tools bind tools/run-tests abuse

soak: ## half an hour of changes into five secondaries while everything is killed (SOAK_SECONDS=180: as in CI)
	SOAK_SECONDS=$${SOAK_SECONDS:-1800} tools/with-tools openssl,apiserver,bind,knot,nsd,pdns,unbound tools/run-tests soak

tenants: ## a tenant with `edit` in one namespace does all it may for TENANTS_SECONDS (60): nobody else notices
	tools/with-tools openssl,apiserver,bind,knot,nsd tools/run-tests tenants

bench: ## measurements, beside CoreDNS with the same cluster
	tools/with-tools openssl,apiserver,coredns,dnsperf,bind,knot,nsd cargo bench --locked --bench '*'

docs: ## the manual as a book, in target/book
	tools/mdbook build docs

# What is shipped names its commit.
dist: ## the program of images, packages and releases, in target/dist
	ZONEWRIGHT_COMMIT=$$(git rev-parse --short=12 HEAD) ZONEWRIGHT_DATE=$$(git log -1 --format=%cs) cargo build --profile dist --locked

image: dist ## the container image, as an OCI layout in target/image
	tools/with-tools umoci,python deploy/image/build

chart: ## the Helm chart, as an archive in target/chart
	tools/with-tools helm4 target/tools/bin/helm4 package --destination target/chart deploy/chart/zonewright

deb: dist ## the Debian package, in target/package
	tools/with-tools nfpm,binutils,python deploy/package/build deb

rpm: dist ## the RPM package, in target/package
	tools/with-tools nfpm,binutils,python deploy/package/build rpm

release: ## all that a release consists of, in target/release-VERSION, and its tag (NO_TAG=1: none); pushes nothing
	tools/release

tools: ## builds kube-apiserver, etcd and kubectl into target/tools/bin (about 6 minutes, once)
	tools/go-tools apiserver

coredns: ## builds CoreDNS into target/tools/bin (about 5 minutes, once)
	tools/go-tools coredns

advisories: ## known vulnerabilities of our dependencies; needs the network
	tools/cargo-deny check advisories

clean-tools: ## removes what tools, coredns and lint have built
	rm -rf target/tools "$${XDG_CACHE_HOME:-$$HOME/.cache}/zonewright"
