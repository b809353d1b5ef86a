// Bench measures the client of package csi with a driver that does nothing: a pod's volume is staged,
// published, unpublished and unstaged. Each subject is a process of its own; a further process, the
// program's own, is the driver.
//
//   - floor: the four calls alone on a plain connection, and the directories that the driver has to find
//   - floor, durable: the same, and each of the two files that a node agent needs after a loss of power is
//     written, synced and renamed, and its directory synced
//   - ours: package csi
//   - kubelet: k8s.io/kubernetes/pkg/volume/csi, which syncs no file. The flag -peer is a program that
//     runs it: "make bench-csi" builds it, in the version of peer.mod.
//
// The subjects work in turns. It prints for each the median time for a volume, the ratio to the floor, the
// processor time of the client, and the calls that the driver has received, for one volume after another
// and for several at the same time; and for many volumes that are up the calls, the processor time and
// the goroutines in a time without changes.
//
//	make bench-csi
//	go run ./csi/bench -dirs /dev/shm -subject ours
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

type options struct {
	dirs    []string
	subject string // a part of the names of the subjects
	peer    string // the program of the peer; "": not measured
	rounds  int
	volumes int // of a round
	abreast int
	up      int // volumes that are up while nothing changes
	idle    time.Duration
}

func main() {
	if isSubject() {
		return
	}
	var o options
	dirs := flag.String("dirs", strings.Join([]string{"/dev/shm", os.TempDir()}, ","), "the `directories` of the volumes, in a list")
	flag.StringVar(&o.subject, "subject", "", "measure only the subjects with this `text` in their names")
	flag.StringVar(&o.peer, "peer", "", "the `program` of the kubelet's client")
	flag.IntVar(&o.rounds, "rounds", 20, "the `number` of rounds")
	flag.IntVar(&o.volumes, "volumes", 32, "the `number` of volumes in a round")
	flag.IntVar(&o.abreast, "abreast", 16, "the `number` of volumes at the same time")
	flag.IntVar(&o.up, "up", 1000, "the `number` of volumes that are up while nothing changes")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "the `duration` without changes")
	flag.Parse()
	o.dirs = strings.Split(*dirs, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
