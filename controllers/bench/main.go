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
//
// The agent writes no events and no status: an event for each mounted volume is one call more.
//
// The volumes are mounted in a user and mount namespace of the program's own. The API server is
// that of package internal/kubeserver: "make kube" builds it.
//
//	make bench-cluster
//	go run ./controllers/bench -pods 20 -idle 5s
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

type options struct {
	pods          int
	idle          time.Duration
	clusterPods   int
	clusterNodes  int
	skipMemory    bool
	skipAPIServer bool
}

func main() {
	var o options
	flag.IntVar(&o.pods, "pods", 110, "the `number` of pods of the node")
	flag.DurationVar(&o.idle, "idle", time.Minute, "the `duration` without changes")
	flag.IntVar(&o.clusterPods, "cluster-pods", 10_000, "the `number` of pods in the cluster in memory")
	flag.IntVar(&o.clusterNodes, "cluster-nodes", 5_000, "the `number` of nodes in the cluster in memory")
	flag.BoolVar(&o.skipMemory, "no-memory", false, "do not measure memory")
	flag.BoolVar(&o.skipAPIServer, "no-server", false, "measure memory alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	if !o.skipMemory && os.Getenv(insideVar) == "" {
		size := memoryCluster{own: o.pods, pods: o.clusterPods, nodes: o.clusterNodes}
		if _, err := measureMemory(ctx, size, out); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	if o.skipAPIServer {
		return nil
	}
	return onServer(ctx, o, out)
}

// insideVar marks the copy of the program in a namespace of its own.
const insideVar = "VOLUMEKIT_BENCH_CLUSTER"
