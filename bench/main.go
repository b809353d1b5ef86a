// Bench measures this library beside its peer, k8s.io/mount-utils or the kubelet's steps
// re-created from their documentation, and beside the fewest system calls that can do the
// work (the floor, which checks nothing). All sides do the same work in turns, in one run;
// Bench compares their results first. It prints medians of time, processor time, system calls
// and allocations per operation, and their ratios, the worst first.
//
// Each subject has a file here and a line in subjects_linux.go. It runs in a mount namespace
// of its own, with a user namespace unless run as root, on an ext4 in a file if there are
// loop devices. The peer requires mount(8) and umount(8), and changes of ownership require
// root.
//
// The peer of "make bench" is the newest k8s.io/mount-utils that bench/peer.mod names;
// that of "go run ./bench" is the oldest that this module supports.
//
//	make bench
//	GOWORK=off go run -modfile=bench/peer.mod ./bench -only bind,restart -runs 3
//	GOWORK=off go run -modfile=bench/peer.mod ./bench -load 2 -runs 3 -json rows.json  # idle, then busy
//	go run ./bench -from rows.json -markdown -svg bench/numbers.svg         # shows them again
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

type options struct {
	only, mounts, json, svg, from string
	rounds, runs, load            int
	budget, batch                 time.Duration
	markdown                      bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "measure these `subjects` only, with commas")
	flag.StringVar(&o.mounts, "mounts", "10,1000,10000", "`numbers` of mounts in the namespace")
	flag.IntVar(&o.rounds, "rounds", 25, "the largest `number` of measurements of each side")
	flag.DurationVar(&o.budget, "budget", time.Second, "the `duration` after which no further round of a piece of work begins")
	flag.DurationVar(&o.batch, "batch", time.Millisecond, "the `duration` for which short work is repeated in one round")
	flag.IntVar(&o.runs, "runs", 1, "the `number` of runs of everything; with several, ratios have their smallest and largest value")
	flag.IntVar(&o.load, "load", 0, "measure a second time while `N` processes keep the machine busy")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table of README.md: the worst ratios of each subject")
	flag.StringVar(&o.svg, "svg", "", "draw the worst ratios of each subject into `FILE`")
	flag.StringVar(&o.json, "json", "", "write all rows to `FILE`")
	flag.StringVar(&o.from, "from", "", "measure nothing, and read rows from `FILE`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if role := os.Getenv(roleVar); role != "" {
		return runRole(ctx, role, o)
	}
	rows, err := rowsOf(ctx, o)
	if err != nil {
		return err
	}
	if o.json != "" {
		if err := writeFile(o.json, func(w io.Writer) error { return writeRows(w, rows) }); err != nil {
			return err
		}
	}
	lines := summarize(rows)
	if o.svg != "" {
		if err := writeFile(o.svg, func(w io.Writer) error { return draw(w, lines) }); err != nil {
			return err
		}
	}
	if o.markdown {
		return printShort(os.Stdout, lines)
	}
	return printAll(os.Stdout, lines)
}

func rowsOf(ctx context.Context, o options) ([]Row, error) {
	if o.from == "" {
		return measureAll(ctx, o)
	}
	file, err := os.Open(o.from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readRows(file)
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// writeRows writes one JSON object per line.
func writeRows(w io.Writer, rows []Row) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func readRows(r io.Reader) (rows []Row, err error) {
	for decoder := json.NewDecoder(r); ; {
		var row Row
		err := decoder.Decode(&row)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
}
