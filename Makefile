# "make" is what a change has to pass. "make help" lists the rest.

GO        ?= go
FUZZTIME  ?= 5s
PLATFORMS ?= darwin/arm64 darwin/amd64 windows/amd64 linux/arm64
# For these only what asks the system for something is built, and no tests: Kubernetes
# and the packages of tests take longer to compile than all of ours.
LEAVES ?=

# What test-kernels runs on. There is "sid", too, the newest that Debian has.
KERNELS ?= 6.1 6.12
# More flags of go test for it.
KERNELFLAGS ?=

# The tools have a module of their own, so that ours does not require them.
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: all help fmt-check vet lint test race sim long kernels guests test-kernels test-nfs on-kernel cross bench fuzz

all: fmt-check vet lint race cross

help:
	@echo "make            fmt-check, vet, lint, race, cross"
	@echo "make fmt-check  no file differs from gofmt's"
	@echo "make vet        go vet"
	@echo "make lint       staticcheck and errorlint"
	@echo "make test       the tests"
	@echo "make race       the tests with the race detector"
	@echo "make sim        the simulation of the volume manager, 100,000 seeds"
	@echo "make long       the stress and attack tests at full length: hours"
	@echo "make test-kernels"
	@echo "                the tests that mount for real, on Linux $(KERNELS)"
	@echo "make test-nfs   the tests that mount NFS, on the same kernels"
	@echo "make cross      build and vet for $(PLATFORMS)"
	@echo "make bench      measure against k8s.io/mount-utils"
	@echo "make fuzz       each fuzz test for $(FUZZTIME)"

fmt-check:
	@files=$$(gofmt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt -w would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(TOOL) staticcheck ./...
	$(TOOL) go-errorlint ./...

test:
	$(GO) test ./...

race:
	$(GO) test -race ./...

# The manager on 100,000 simulated nodes, and without each of its guards.
sim:
	VOLUMEKIT_SEEDS=100000 $(GO) test -count=1 -timeout 30m -run '^TestSimulation' ./manager
	VOLUMEKIT_LONG=1 $(GO) test -count=1 -timeout 30m -run '^TestSimulationFinds' ./manager

# One package at a time: each makes as much load as it can.
long:
	VOLUMEKIT_LONG=1 $(GO) test -race -count=1 -p 1 -timeout 5h ./...

# Fetched once, from Debian, and kept: see internal/kerneltest/kernels.
kernels:
	$(GO) run ./internal/kerneltest/cmd/fetchkernels $(KERNELS) mount.nfs

# Packages that have tests, which import the one that matches $(1).
TESTSOF = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}{{end}}' ./... | \
	awk '/$(1)/ {print $$1}'

# The packages that ask the kernel for something: they import x/sys/unix, or their
# tests mount for real. GUESTSKIP in the environment matches packages to leave out.
GUESTPACKAGES = $(call TESTSOF,[ \[](golang.org\/x\/sys\/unix|[^ ]*\/mount\/mounttest)[] ]) | \
	grep -vE 'volumekit$$|/(bench|examples|kerneltest/(abreast|boot|guest|nfsserver))(/|$$)' | \
	grep -vE "$${GUESTSKIP:-^$$}"

# The guests run packages one by one, for as long as GUESTTIME each, and, with -short,
# less of what repeats: they are slow.
GUESTTIME ?= 8m
GUESTLENGTH ?= -short

# What they leave out: tests of the NFS server, which test-nfs runs, and the contract
# on what is no kernel, or on a newer one that does as if it were older.
GUESTLEAVE = ^TestNFS|^TestContract(Fake|Filtered|OnEachFeed|Without)

# What a guest has, and from Linux 6.12 on.
GUESTHAS = userns,root,loop,ptrace,fuse,seccomp,nfs,ipv6,mount.nfs,growext4
GUESTHAS612 = $(GUESTHAS),statmount

# No race detector: its programs do not start in these kernels.
test-kernels test-nfs: export CGO_ENABLED = 0

test-kernels: guests
	VOLUMEKIT_REQUIRE=kernels VOLUMEKIT_KERNEL=$(firstword $(KERNELS)) $(GO) test -count=1 ./internal/kerneltest/boot ./examples/nfs
	@packages=$$($(GUESTPACKAGES)) && $(call ON_KERNELS,-skip '$(GUESTLEAVE)')

# All tests that need an NFS server are called so: nfsserver sees to it.
test-nfs: export VOLUMEKIT_COUNT_FILE = $(CURDIR)/bin/nfs.count
test-nfs: guests
	@rm -f bin/nfs.count
	@packages=$$($(call TESTSOF,kerneltest\/nfsserver[] ])) && \
		$(call ON_KERNELS,-run '^TestNFS')
	@awk '$$1 == "nfs" {mounts += $$2; dead += $$3} END { \
		printf "real NFS: %d mounts, %d dead servers survived\n", mounts, dead; exit !(mounts && dead)}' bin/nfs.count

guests: kernels
	$(GO) build -o bin/ ./internal/kerneltest/cmd/umlrun ./internal/kerneltest/cmd/oneach

# ON_KERNELS runs tests of $$packages on each kernel. What they have in common is
# compiled first, and once.
ON_KERNELS = [ -n "$$packages" ] && \
	$(GO) list -test -export -f '{{/* compiled */}}' $$packages && \
	bin/oneach $(KERNELS) -- $(MAKE) --no-print-directory on-kernel KERNEL={} PACKAGES="$$(echo $$packages)" FLAGS="$(1)"

on-kernel:
	@echo "Linux $(KERNEL)"
	@VOLUMEKIT_REQUIRE=$(if $(filter 6.1,$(KERNEL)),$(GUESTHAS),$(GUESTHAS612)) \
		$(GO) test $(GUESTLENGTH) -count=1 -vet=off -p 1 -timeout $(GUESTTIME) $(FLAGS) $(KERNELFLAGS) \
		-exec "'$(CURDIR)/bin/umlrun' -kernel $(KERNEL)" $(PACKAGES)

LEAFPACKAGES = $(GO) list ./mount/... ./util/... | grep -vE '/(util|[a-z]+test)$$'

# For what nobody runs.
UNOPTIMIZED = -gcflags='all=-N -l'

cross:
	@set -e; for platform in $(PLATFORMS) $(LEAVES); do \
		echo "$$platform"; \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		case " $(LEAVES) " in \
		*" $$platform "*) packages=$$($(LEAFPACKAGES)); $(GO) build $(UNOPTIMIZED) $$packages;; \
		*) $(GO) build $(UNOPTIMIZED) ./mount/... ./util/...; $(GO) vet $(UNOPTIMIZED) ./...;; \
		esac; \
	done

bench:
	$(GO) run ./bench

# go test fuzzes one function of one package at a time.
fuzz:
	@set -e; grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file function; do \
		$(GO) test -run '^$$' -fuzz "^$${function#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done
