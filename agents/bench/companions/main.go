// Companions measures the programs beside a CSI driver whose calls take no time, on a real API server:
//
//   - ours: agents/cmd/controlplane with its controller that attaches, and agents/cmd/sidecar
//   - theirs: kube-controller-manager with its controller that attaches, external-attacher, external-provisioner and
//     external-resizer, with their default flags, but without limits of their calls to the API server
//
// Both are programs of their own, built as their users do, and have an API server of their own for each measurement.
// They work in turns. It prints for each
//
//   - the time to attach the volumes of pods that appear all at once on several nodes, and to detach them once the
//     pods are gone: by the controller that attaches and the attacher, with the API calls for each volume and the
//     processor time
//   - the processor time and the memory of both programs while nothing changes, and while pods come and go
//   - the rate at which the attacher alone attaches and detaches the volumes of VolumeAttachments
//   - the rate at which the provisioner creates volumes
//   - the memory of all companions of the driver with volumes that are attached
//
// The memory is that of a process without pages of files (RssAnon in proc_pid_status(5)).
//
//	make bench-companions
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

type options struct {
	ours, theirs programs
	parts        string // that are measured, "": all
	rounds       int
	nodes        int
	volumes      int
	idle         time.Duration
	churn        time.Duration
	rate         int // pods per second
	limit        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.ours.attach, "plane", "bin/controlplane", "the `program` controlplane")
	flag.StringVar(&o.ours.attacher, "sidecar", "bin/sidecar", "the `program` sidecar")
	flag.BoolVar(&o.theirs.isLeftOut, "no-peer", false, "measure only ours")
	flag.StringVar(&o.parts, "part", "", "measure only the part with this `text` in its name")
	flag.IntVar(&o.rounds, "rounds", 3, "the `number` of rounds")
	flag.IntVar(&o.nodes, "nodes", 100, "the `number` of nodes")
	flag.IntVar(&o.volumes, "volumes", 1000, "the `number` of volumes")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "the `duration` without changes")
	flag.DurationVar(&o.churn, "churn", 30*time.Second, "the `duration` in which pods come and go")
	flag.IntVar(&o.rate, "rate", 50, "the `number` of pods that come in a second, and that go")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "the `duration` after which a measurement fails")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "companions:", err)
		os.Exit(1)
	}
}
