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

# The packages that ask the kernel for something, and have tests: they import
# x/sys/unix, or their tests mount for real. The guests run those one by one, for
# as long as GUESTTIME each, and less of what repeats: they are slow. GUESTSKIP
# in the environment matches packages to leave out.
GUESTPACKAGES = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}{{end}}' ./... | \
	awk '/[ \[](golang.org\/x\/sys\/unix|[^ ]*\/mount\/mounttest)[] ]/ && $$1 !~ /volumekit$$|\/(bench|examples|kerneltest\/(boot|guest))(\/|$$)/ {print $$1}' | \
	grep -vE "$${GUESTSKIP:-^$$}"
GUESTTIME ?= 8m

# What a guest has, and from Linux 6.12 on.
GUESTHAS = userns,root,loop,ptrace,fuse,seccomp,nfs,ipv6,growext4
GUESTHAS612 = $(GUESTHAS),statmount

# No race detector: its programs do not start in these kernels.
test-kernels: export CGO_ENABLED = 0
test-kernels: kernels
	$(GO) build -o bin/umlrun ./internal/kerneltest/cmd/umlrun
	VOLUMEKIT_REQUIRE=kernels VOLUMEKIT_KERNEL=$(firstword $(KERNELS)) $(GO) test -count=1 ./internal/kerneltest/boot
	@set -e; packages=$$($(GUESTPACKAGES)); [ -n "$$packages" ]; for kernel in $(KERNELS); do \
		echo "Linux $$kernel"; \
		case "$$kernel" in 6.1) has=$(GUESTHAS) ;; *) has=$(GUESTHAS612) ;; esac; \
		VOLUMEKIT_REQUIRE="$$has" $(GO) test -short -count=1 -p 1 -timeout $(GUESTTIME) $(KERNELFLAGS) \
			-exec "'$(CURDIR)/bin/umlrun' -kernel $$kernel" $$packages; \
	done

cross:
	@set -e; for platform in $(PLATFORMS); do \
		echo "$$platform"; \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		$(GO) build ./mount/... ./util/...; \
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
