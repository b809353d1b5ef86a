# "make" is what a change has to pass. "make help" lists the rest.

GO        ?= go
FUZZTIME  ?= 5s
PLATFORMS ?= darwin/arm64 darwin/amd64 windows/amd64 linux/arm64

# What test-kernels runs on. There is "sid", too, the newest that Debian has.
KERNELS ?= 6.1 6.12
# More flags of go test for it.
KERNELFLAGS ?=

# The tools have a module of their own, so that ours does not require them.
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: all help fmt-check vet lint test race kernels test-kernels cross bench fuzz

all: fmt-check vet lint race cross

help:
	@echo "make            fmt-check, vet, lint, race, cross"
	@echo "make fmt-check  no file differs from gofmt's"
	@echo "make vet        go vet"
	@echo "make lint       staticcheck and errorlint"
	@echo "make test       the tests"
	@echo "make race       the tests with the race detector"
	@echo "make test-kernels"
	@echo "                the tests that mount for real, on Linux $(KERNELS)"
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

# Fetched once, from Debian, and kept: see internal/kerneltest/kernels.
kernels:
	$(GO) run ./internal/kerneltest/cmd/fetchkernels $(KERNELS)

# No race detector: its programs do not start in these kernels.
test-kernels: export CGO_ENABLED = 0
test-kernels: export VOLUMEKIT_REQUIRE = userns,root,loop,ptrace,growext4,kernels
test-kernels: kernels
	$(GO) build -o bin/umlrun ./internal/kerneltest/cmd/umlrun
	@set -e; for kernel in $(KERNELS); do \
		echo "Linux $$kernel"; \
		VOLUMEKIT_KERNEL="$$kernel" $(GO) test -count=1 ./internal/kerneltest/...; \
		$(GO) test -count=1 $(KERNELFLAGS) -exec "'$(CURDIR)/bin/umlrun' -kernel $$kernel" ./mount/... ./util/... ./local/...; \
	done

cross:
	@set -e; for platform in $(PLATFORMS); do \
		echo "$$platform"; \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		$(GO) build ./...; \
		$(GO) vet ./...; \
	done

bench:
	$(GO) run ./bench

# go test fuzzes one function of one package at a time.
fuzz:
	@set -e; grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file function; do \
		$(GO) test -run '^$$' -fuzz "^$${function#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done
