// Bench measures an agent of package controllers/node on a real API server, with pods of 5 volumes
// each: an emptyDir, a ConfigMap, a Secret, a claim of a local volume, and a projected volume with
// a token. It prints
//
//   - the time from the call of a pod's binding until all volumes of the pod are up, with the
//     processor time of the agent, for pods that are bound one after another and all at once
//   - the same for the calls alone, without volumes: the floor
//   - the calls of the agent to the API server for each pod; a repeated one is an error
//   - the watches in a time without changes; any other call is an error
//   - the memory of the agent of one node, in a cluster in memory with many pods and nodes, and
//     that of an informer of all pods
//   - for a binder of package controllers/bind, and that of kube-controller-manager: the rate and the times at
//     which claims and volumes are bound that exist at its start, the processor time, and for ours the API
//     calls, the conflicts and the memory; and the same writes by plain clients: the floor. The same for claims
//     that a provisioner stores volumes for; and the time of a restart beside bound pairs until a new pair
//     is bound, with the calls, the processor time and the memory of an idle time afterwards
//   - for a controller of package controllers/provision: the rate and the times at which volumes are
//     stored for claims that exist at its start, and deleted for volumes that are released at its
//     start, with a storage of 0 and 200 ms for each call, without failures and with a tenth of the
//     calls failing; the API calls for each, without events, the processor time and the memory; and
//     the rate at which the API server stores the volumes of plain clients: the floor
//   - for a controller of package controllers/attach, in a cluster in memory with many nodes, pods and attached
//     volumes: the time from the binding of a pod to the call that attaches its volume
//
// The agent writes no events and no status: an event for each mounted volume is one call more.
//
// The volumes are mounted in a user and mount namespace of the program's own. The API server is
// that of package internal/kubeserver: "make kube" builds it.
//
// Each controller runs in a process of its own, and writes its events. The flag -peer is a program that
// runs the controller of sig-storage-lib-external-provisioner: "make bench-cluster" builds it, in the
// version of peer.mod, with the newest client libraries.
//
//	make bench-cluster
//	go run ./controllers/bench -pods 20 -idle 5s -no-provision -no-bind -no-attach
//	go run ./controllers/bench -no-pods -claims 10000 -delays 0s -failures 0 -no-bind -no-attach
//	go run ./controllers/bench -no-pods -no-provision -pairs 1000 -no-attach
//	go run ./controllers/bench -no-pods -no-server
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

type options struct {
	pods          int
	idle          time.Duration
	clusterPods   int
	clusterNodes  int
	skipMemory    bool
	skipAPIServer bool
	skipPods      bool
	skipProvision bool
	provision     provisionOptions
	skipBind      bool
	bind          bindOptions
	skipAttach    bool
	attach        attachOptions
}

// A bindOptions selects the measurements of binders.
type bindOptions struct {
	pairs     []int
	peer      string // kube-controller-manager
	peerPairs int    // the most pairs that it binds
	limit     time.Duration
	// provisioned are numbers of claims that a provisioner stores volumes for, and bound numbers of pairs
	// that exist at the restart of a binder, which is idle afterwards.
	provisioned, bound []int
	idle               time.Duration
}

// A provisionOptions selects the measurements of provisioners.
type provisionOptions struct {
	claims   []int
	delays   []time.Duration
	failures []float64
	subjects string        // a part of the names of the contenders
	peer     string        // the program of the peer
	limit    time.Duration // of one measurement
}

func main() {
	if isProvisioner() {
		return
	}
	o := options{provision: provisionOptions{
		claims: []int{100, 1000}, delays: []time.Duration{0, 200 * time.Millisecond}, failures: []float64{0, 0.1},
	}, bind: bindOptions{pairs: []int{100, 1000, 10000}, provisioned: []int{1000}}}
	flag.IntVar(&o.pods, "pods", 110, "the `number` of pods of the node")
	flag.DurationVar(&o.idle, "idle", time.Minute, "the `duration` without changes")
	flag.IntVar(&o.clusterPods, "cluster-pods", 10_000, "the `number` of pods in the cluster in memory")
	flag.IntVar(&o.clusterNodes, "cluster-nodes", 5_000, "the `number` of nodes in the cluster in memory")
	flag.BoolVar(&o.skipMemory, "no-memory", false, "do not measure memory")
	flag.BoolVar(&o.skipAPIServer, "no-server", false, "measure only in memory")
	flag.BoolVar(&o.skipPods, "no-pods", false, "do not measure the agent")
	flag.BoolVar(&o.skipProvision, "no-provision", false, "do not measure provisioners")
	flag.Var(list[int]{&o.provision.claims, strconv.Atoi}, "claims", "the `numbers` of claims, in a list")
	flag.Var(list[time.Duration]{&o.provision.delays, time.ParseDuration}, "delays", "the `durations` of a call of the storage, in a list")
	flag.Var(list[float64]{&o.provision.failures, parseShare}, "failures", "the `shares` of the storage's calls that fail, in a list")
	flag.StringVar(&o.provision.subjects, "subject", "", "measure only the provisioners with this `text` in their names")
	flag.StringVar(&o.provision.peer, "peer", "", "the `program` of the other controller")
	flag.DurationVar(&o.provision.limit, "limit", 10*time.Minute, "the `duration` after which the measurement of a provisioner fails")
	flag.BoolVar(&o.skipBind, "no-bind", false, "do not measure binders")
	flag.Var(list[int]{&o.bind.pairs, strconv.Atoi}, "pairs", "the `numbers` of pairs of a claim and a volume, in a list")
	flag.StringVar(&o.bind.peer, "bind-peer", "", "the `program` kube-controller-manager")
	flag.IntVar(&o.bind.peerPairs, "bind-peer-pairs", 3000, "the largest `number` of pairs for kube-controller-manager, which binds some tens in a second")
	flag.Var(list[int]{&o.bind.provisioned, strconv.Atoi}, "provisioned", "the `numbers` of claims that a provisioner stores volumes for, in a list")
	flag.Var(list[int]{&o.bind.bound, strconv.Atoi}, "bound", "the `numbers` of bound pairs at a restart of a binder, in a list; each pair costs four writes before")
	flag.BoolVar(&o.skipAttach, "no-attach", false, "do not measure the reaction of the controller that attaches")
	flag.IntVar(&o.attach.pods, "attach-pods", 100_000, "the `number` of pods in the cluster in memory of this controller")
	flag.IntVar(&o.attach.attached, "attached", 20_000, "the `number` of these pods with a volume")
	flag.IntVar(&o.attach.bound, "attach-bound", 1000, "the `number` of pods that are bound while it runs")
	flag.DurationVar(&o.attach.every, "attach-every", 20*time.Millisecond, "the `duration` between two of them")
	flag.Parse()
	o.attach.nodes = o.clusterNodes
	o.bind.limit, o.bind.idle = o.provision.limit, o.idle
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	isInside := os.Getenv(insideVar) != ""
	if !o.skipMemory && !o.skipPods && !isInside {
		size := memoryCluster{own: o.pods, pods: o.clusterPods, nodes: o.clusterNodes}
		if _, err := measureMemory(ctx, size, out); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	if !o.skipAttach && !isInside {
		if err := measureReaction(ctx, o.attach, out); err != nil {
			return fmt.Errorf("attach: %w", err)
		}
	}
	if o.skipAPIServer {
		return nil
	}
	if !o.skipPods {
		if err := onServer(ctx, o, out); err != nil {
			return err
		}
	}
	if isInside {
		return nil
	}
	if !o.skipProvision {
		if err := onProvisionServer(ctx, o.provision, out); err != nil {
			return fmt.Errorf("provisioners: %w", err)
		}
	}
	if !o.skipBind {
		if err := onBindServer(ctx, o.bind, out); err != nil {
			return fmt.Errorf("binders: %w", err)
		}
	}
	return nil
}

// A list is a flag of values separated by commas.
type list[T any] struct {
	values *[]T
	parse  func(string) (T, error)
}

func (l list[T]) String() string {
	if l.values == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*l.values), " ", ","), "[]")
}

func (l list[T]) Set(text string) error {
	*l.values = nil
	for part := range strings.SplitSeq(text, ",") {
		value, err := l.parse(part)
		if err != nil {
			return err
		}
		*l.values = append(*l.values, value)
	}
	return nil
}

func parseShare(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// insideVar marks the copy of the program in a namespace of its own.
const insideVar = "VOLUMEKIT_BENCH_CLUSTER"
