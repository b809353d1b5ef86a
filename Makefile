# "make" is what a change has to pass: the gate. "make help" lists the rest.

GO        ?= go
FUZZTIME  ?= 5s
PLATFORMS ?= darwin/arm64 darwin/amd64 windows/amd64 linux/arm64
# For these platforms make builds only packages with system calls, and no tests: Kubernetes
# and the packages of tests take longer to compile than all of ours.
LEAVES ?=

# What test-kernels runs on. There is "sid", too, the newest that Debian has.
KERNELS ?= 6.1 6.12
# More flags of go test for it.
KERNELFLAGS ?=

# The packages of all modules that go.work joins.
ALL = work
# A workspace allows no -modfile.
ALONE = GOWORK=off $(GO)

# The tools have a module of their own, so that ours does not require them.
TOOLS = honnef.co/go/tools/cmd/staticcheck github.com/polyfloyd/go-errorlint golang.org/x/exp/cmd/apidiff

.PHONY: all help gate nightly weekly timing attack fmt-check vet tools lint api test race sim mutants mutant-packages long kernels guests test-kernels test-nfs kube test-cluster node test-kubelet manager test-manager sidecars test-sidecars test-sanity docker test-docker on-kernel cross bench bench-cluster bench-companions bench-csi bench-docker numbers fuzz

all: gate

help:
	@echo "make, make gate what each change has to pass, as root: at most 15 minutes on two cores, and 7 with a"
	@echo "                warm build cache"
	@echo "make nightly    the suites that search for rare defects, and a table of their results: hours"
	@echo "make weekly     the same, and those with a kubelet, programs of Kubernetes and longer searches"
	@echo "make timing     the tests that measure real time or an idle program, which load disturbs"
	@echo "make attack     the tests that search for races by chance"
	@echo "make fmt-check  no file differs from gofmt's"
	@echo "make vet        go vet"
	@echo "make lint       staticcheck and errorlint"
	@echo "make api        the exported API against the last release: each break needs a line in CHANGELOG.md"
	@echo "make test       the tests"
	@echo "make race       the tests with the race detector"
	@echo "make sim        the simulations of the volume manager, the controllers and the plugin"
	@echo "                of CSI drivers, 100,000 seeds, and of a node on an API server, 10,000"
	@echo "make mutants    the tests without each of the guards that they should miss"
	@echo "make long       the stress and attack tests at full length: hours"
	@echo "make test-kernels"
	@echo "                the tests that mount for real, on Linux $(KERNELS)"
	@echo "make test-nfs   the tests that mount NFS, on the same kernels"
	@echo "make test-cluster"
	@echo "                the tests that need a Kubernetes API server"
	@echo "make test-kubelet"
	@echo "                the tests that need a kubelet, as root"
	@echo "make test-manager"
	@echo "                the end states of controllers against those of kube-controller-manager"
	@echo "make test-sidecars"
	@echo "                the end states of expansions and attachments against those of"
	@echo "                external-resizer and external-attacher, and the names of the flags of these and"
	@echo "                of external-provisioner"
	@echo "make test-sanity"
	@echo "                csi-sanity on the drivers that csi/driver serves, and on one on mount/mountutils"
	@echo "make test-docker"
	@echo "                the volumes of a Docker daemon, as root"
	@echo "make cross      build and vet for $(PLATFORMS)"
	@echo "make bench      measure against k8s.io/mount-utils"
	@echo "make bench-cluster"
	@echo "                measure an agent, provisioners and binders on a real API server, the controller"
	@echo "                that attaches in memory, and the companions"
	@echo "make bench-companions"
	@echo "                measure attaching and the companions of a CSI driver against those of Kubernetes"
	@echo "make bench-csi  measure a client of CSI drivers against the kubelet's"
	@echo "make bench-docker"
	@echo "                measure containers with volumes beside those of Docker's own driver"
	@echo "make numbers    make bench on an idle and a busy machine, for bench/README.md: half an hour"
	@echo "make fuzz       each fuzz test for $(FUZZTIME)"

gate:
	@.ci/gate

nightly weekly:
	@.ci/suites $@

# The packages with tests that carry a mark of internal/testbed, $(1), each with a pattern of these tests.
MARKED = grep -rlE --include='*_test.go' '^.(testbed[.])?$(1)[(]t[)]$$' . | xargs awk \
	'/^func Test/ {split($$2, name, "(")} /^.(testbed[.])?$(1)[(]t[)]$$/ {dir = FILENAME; sub("/[^/]*$$", "", dir); tests[dir] = tests[dir] "|" name[1]} \
	END {for (dir in tests) print dir, substr(tests[dir], 2)}' | sort

# Runs the tests with the mark $(1), one package at a time.
RUN_MARKED = $(call MARKED,$(1)) | { status=1; while read -r package tests; do [ "$$ran" ] || status=0; ran=yes; \
	$(GO) test -vet=off -count=1 -timeout 30m -run "^($$tests)$$" "$$package" </dev/null || status=1; done; exit $$status; }

timing: export VOLUMEKIT_REQUIRE = userns,root,loop,fuse,strace,timing
timing:
	@$(call RUN_MARKED,RealTime)

attack: export VOLUMEKIT_REQUIRE = userns,root,loop,attack
attack:
	@$(call RUN_MARKED,[aA]ttacks)

fmt-check:
	@files=$$(gofmt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt -w would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet $(ALL)

tools:
	@mkdir -p bin
	$(ALONE) build -modfile=tools/go.mod -o bin/ $(TOOLS)

lint: tools
	bin/staticcheck $(ALL)
	bin/go-errorlint $(ALL)

# The exported API of each module against that of its last release.
api: tools
	@.ci/api

test:
	$(GO) test $(ALL)

race:
	$(GO) test -race $(ALL)

# The manager on 100,000 simulated nodes, and with a source on 10,000 simulated API servers; the
# controllers and the plugin of CSI drivers on 100,000.
sim:
	@status=0; simulate() { VOLUMEKIT_SEEDS=$$1 $(GO) test -count=1 -timeout 3h -run "$$2" $$3 || status=1; }; \
	simulate 100000 '^TestSimulation' ./manager; \
	simulate 10000 '^TestSimulation' ./controllers/node; \
	simulate 1000 '^TestSimulation' ./internal/socketfile; \
	simulate 100000 '^TestSimulation$$' "./controllers/bind ./controllers/provision ./controllers/protect ./controllers/expand ./controllers/modify ./controllers/attach ./controllers/attachment ./csi"; \
	exit $$status

# The tests of packages that list their guards, without each of these: one that survives
# is a guard that no test misses. MUTANTS is a part of the names of those to remove.
MUTANTPACKAGES ?= ./manager ./controllers/node ./controllers/bind ./controllers/provision ./controllers/protect ./controllers/expand ./controllers/modify ./controllers/attach ./controllers/attachment ./csi ./csi/sidecar
mutant-packages:
	@echo $(MUTANTPACKAGES)

mutants: export MUTANTS ?=
mutants:
	VOLUMEKIT_LONG=1 $(GO) test -count=1 -p 1 -timeout 2h -v -run 'Finds?MissingGuards$$' $(MUTANTPACKAGES)

# One package at a time: each makes as much load as it can.
long:
	VOLUMEKIT_LONG=1 $(GO) test -race -count=1 -p 1 -timeout 5h $(ALL)

# Fetched once, from Debian, and kept: see internal/kerneltest/kernels.
kernels:
	$(GO) run ./internal/kerneltest/cmd/fetchkernels $(KERNELS) mount.nfs

# Packages of $(2), else of the root module, that have tests and import the one that matches $(1).
TESTSOF = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}{{end}}' $(or $(2),./...) | \
	awk '/$(1)/ {print $$1}'

# The packages that ask the kernel for something: they import x/sys/unix, or their
# tests mount for real. Neverstuck is left out: it requires times that a guest cannot keep.
# GUESTSKIP in the environment matches further packages to leave out.
GUESTPACKAGES = $(call TESTSOF,[ \[](golang.org\/x\/sys\/unix|[^ ]*\/mount\/mounttest)[] ]) | \
	grep -vE 'volumekit$$|/(bench|examples|internal/(rootlock|kubeserver|neverstuck)|kerneltest/(abreast|boot|guest|nfsserver))(/|$$)' | \
	grep -vE "$${GUESTSKIP:-^$$}"

# The guests run packages one by one, for as long as GUESTTIME each, and, with -short,
# less of what repeats: they are slow.
GUESTTIME ?= 16m
GUESTLENGTH ?= -short

# They leave out tests of the NFS server, which test-nfs runs, and the contract on fakes
# and on emulated older kernels.
GUESTLEAVE = ^TestNFS|^TestContract(Fake|Filtered|OnEachFeed|Without)|Contract/fake

# What a guest has, and from Linux 6.12 on.
GUESTHAS = userns,root,loop,ptrace,fuse,seccomp,attack,nfs,ipv6,mount.nfs,growext4,projectquota
GUESTHAS612 = $(GUESTHAS),statmount

# No race detector: its programs do not start in these kernels.
test-kernels test-nfs: export CGO_ENABLED = 0

test-kernels: guests
	VOLUMEKIT_REQUIRE=kernels VOLUMEKIT_KERNEL=$(firstword $(KERNELS)) $(GO) test -count=1 ./internal/kerneltest/boot ./agents/cmd/nfs
	@packages=$$($(GUESTPACKAGES)) && $(call ON_KERNELS,-skip '$(GUESTLEAVE)')
	@packages=./mount && $(call ON_KERNELS,-run '^TestSELinux') PARAMETERS=security=selinux HAS=selinux

# All tests that need an NFS server are called so: nfsserver sees to it.
test-nfs: export VOLUMEKIT_COUNT_FILE = $(CURDIR)/bin/nfs.count
test-nfs: guests
	@rm -f bin/nfs.count
	@packages=$$($(call TESTSOF,kerneltest\/nfsserver[] ],$(ALL))) && \
		$(call ON_KERNELS,-run '^TestNFS')
	@$(MAKE) --no-print-directory on-kernel KERNEL=$(lastword $(KERNELS)) PACKAGES=. FLAGS="-run '^TestNFS'" GO="$(ALONE) -C csi/sanitytest"
	@awk '$$1 == "nfs" {mounts += $$2; dead += $$3} END { \
		printf "real NFS: %d mounts, %d dead servers survived\n", mounts, dead; exit !(mounts && dead)}' bin/nfs.count

# Built and downloaded once, and kept: see internal/kubeserver.
kube:
	$(GO) run ./internal/kubeserver/cmd/fetchkube internal/kubeserver/build

# All tests that need an API server are called so: kubeserver sees to it.
test-cluster: kube
	@packages=$$($(call TESTSOF,internal\/(kubeserver|clustertest)[] ],$(ALL))) && [ -n "$$packages" ] && \
		VOLUMEKIT_REQUIRE=kube,root,xfs $(GO) test -count=1 -timeout 30m -p 1 -run '^TestKube' $$packages

# A kubelet takes minutes to build. Its test with an NFS server runs in a guest.
node:
	$(GO) run ./internal/kubeserver/cmd/fetchkube -node internal/kubeserver/build

test-kubelet: node guests
	VOLUMEKIT_LONG=1 VOLUMEKIT_REQUIRE=root,loop,ext4,kube,kubelet $(GO) test -count=1 -timeout 20m -run '^TestKubelet' ./controllers/node ./csi ./agents/cmd/...
	CGO_ENABLED=0 VOLUMEKIT_LONG=1 VOLUMEKIT_REQUIRE=root,kube,kubelet,nfs $(GO) test -count=1 -timeout 20m -run '^TestKubeletUsesNFS$$' \
		-exec "'$(CURDIR)/bin/umlrun' -kernel $(lastword $(KERNELS)) -memory 2G" ./agents/cmd/nfsdriver

# Debian's packages, which are unpacked and not installed.
docker:
	$(GO) run ./internal/dockerserver/cmd/fetchdocker

test-docker: docker
	CGO_ENABLED=0 VOLUMEKIT_REQUIRE=root,docker $(GO) test -count=1 -timeout 20m -p 1 -run '^TestDocker' ./docker ./agents/cmd/dockervolumes

bench-docker: docker
	CGO_ENABLED=0 VOLUMEKIT_LONG=1 VOLUMEKIT_REQUIRE=root,docker $(GO) test -v -count=1 -timeout 20m -run '^TestDockerCosts$$' ./docker

# kube-controller-manager takes minutes to build, and less if kube-apiserver was built before.
manager:
	$(GO) run ./internal/kubeserver/cmd/fetchkube -manager internal/kubeserver/build

test-manager: manager
	VOLUMEKIT_LONG=1 VOLUMEKIT_REQUIRE=kube,manager $(GO) test -count=1 -timeout 40m -run '^TestKubeSituations' ./agents/cmd/controlplane

# The companions of CSI drivers of the Kubernetes project.
sidecars:
	$(GO) run ./internal/kubeserver/cmd/fetchkube -sidecars internal/kubeserver/buildsidecars internal/kubeserver/build

test-sidecars: sidecars
	VOLUMEKIT_LONG=1 VOLUMEKIT_REQUIRE=kube,resizer,attacher,provisioner $(GO) test -count=1 -timeout 40m -run '^Test(Kube(Expand|Attach|Drift)Situations|TheirHelp)$$' ./agents/cmd/sidecar

# A module of its own, with newer versions of the specification and of gRPC.
test-sanity:
	GOWORK=off $(GO) -C csi/sanitytest vet ./...
	VOLUMEKIT_REQUIRE=userns,root GOWORK=off $(GO) -C csi/sanitytest test -vet=off -count=1 ./...

guests: kernels
	$(GO) build -o bin/ ./internal/kerneltest/cmd/umlrun ./internal/kerneltest/cmd/oneach

# ON_KERNELS runs tests of $$packages on each kernel. What they have in common is
# compiled first, and once.
ON_KERNELS = [ -n "$$packages" ] && \
	$(GO) list -test -export -f '{{/* compiled */}}' $$packages && \
	bin/oneach $(KERNELS) -- $(MAKE) --no-print-directory on-kernel KERNEL={} PACKAGES="$$(echo $$packages)" FLAGS="$(1)"

on-kernel:
	@echo "Linux $(KERNEL)"
	@VOLUMEKIT_REQUIRE=$(if $(filter 6.1,$(KERNEL)),$(GUESTHAS),$(GUESTHAS612)),$(HAS) \
		$(GO) test $(GUESTLENGTH) -count=1 -vet=off -p 1 -timeout $(GUESTTIME) $(FLAGS) $(KERNELFLAGS) \
		-exec "'$(CURDIR)/bin/umlrun' -kernel $(KERNEL) -parameters '$(PARAMETERS)'" $(PACKAGES)

LEAFPACKAGES = $(GO) list ./mount/... ./util/... | grep -vE '/(util|[a-z]+test)$$'

# Flags for binaries that are never run.
UNOPTIMIZED = -gcflags='all=-N -l'

cross:
	@set -e; for platform in $(PLATFORMS) $(LEAVES); do \
		echo "$$platform"; \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		case " $(LEAVES) " in \
		*" $$platform "*) packages=$$($(LEAFPACKAGES)); $(GO) build $(UNOPTIMIZED) $$packages;; \
		*) $(GO) build $(UNOPTIMIZED) ./mount/... ./util/...; $(GO) vet $(UNOPTIMIZED) $(ALL);; \
		esac; \
	done

# The peer is the newest k8s.io/mount-utils, which programs use today, and not the oldest
# that we support.
bench:
	$(ALONE) run -modfile=bench/peer.mod ./bench

# An agent on a real API server, and in a large cluster in memory; a provisioner, and its peer, which
# is in a module file of its own: programs that import ours must not depend on it.
bench-cluster: kube manager
	cd controllers && $(ALONE) build -modfile=bench/peer.mod -o ../bin/provisionpeer ./bench/testdata/peer
	$(GO) run ./controllers/bench -peer bin/provisionpeer -bind-peer "$$($(GO) run ./internal/kubeserver/cmd/fetchkube -manager internal/kubeserver/build | sed -n 's/^the manager is //p')"
	$(MAKE) bench-companions

# The controller that attaches and the companions of a CSI driver, beside those of the Kubernetes project.
bench-companions: kube manager sidecars
	$(GO) build -o bin/ ./agents/cmd/controlplane ./agents/cmd/sidecar
	$(GO) run ./agents/bench/companions

# The client of CSI drivers, beside that of a kubelet, which is in a module file of its own.
bench-csi:
	cd csi && $(ALONE) build -modfile=bench/peer.mod -o ../bin/csipeer ./bench/testdata/peer
	$(GO) run ./csi/bench -peer bin/csipeer

# The table of bench/README.md, for which the machine should have nothing else to do, and its picture.
# bin/numbers.json keeps the rows: "go run ./bench -from" shows them again.
numbers:
	@mkdir -p bin
	$(ALONE) run -modfile=bench/peer.mod ./bench -runs 3 -load $$(nproc) -markdown -json bin/numbers.json -svg bench/numbers.svg

# go test fuzzes one function of one package at a time.
fuzz:
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | { status=1; \
	while IFS=: read -r file function; do \
		[ "$$ran" ] || status=0; ran=yes; \
		$(GO) test -run '^$$' -fuzz "^$${function#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || status=1; \
	done; exit $$status; }
