package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/volumekit/volumekit/csi/bench/internal/subject"
)

// A bench measures the subjects in one directory.
type bench struct {
	options
	driver   *driver
	subjects []*process
	next     int // number of the next volume
	out      io.Writer
}

// A result is the measurements of one subject.
type result struct {
	times   []time.Duration // of each volume
	all     time.Duration
	cpu     time.Duration
	volumes int
	calls   map[string]int
}

func run(ctx context.Context, o options, out io.Writer) error {
	for _, dir := range o.dirs {
		if err := runIn(ctx, dir, o, out); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// runIn measures in a new directory below dir, which it removes.
func runIn(ctx context.Context, dir string, o options, out io.Writer) (err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "volumekit-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	socket := filepath.Join(work, "csi.sock")
	d, stop, err := serveDriver(socket)
	if err != nil {
		return err
	}
	defer stop()
	b := &bench{options: o, driver: d, out: out}
	defer func() {
		for _, p := range b.subjects {
			err = errors.Join(err, p.stop())
		}
	}()
	if err := b.start(work, socket); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\n%s\n", dir)
	for _, abreast := range []int{1, o.abreast} {
		if err := b.measure(ctx, abreast); err != nil {
			return err
		}
	}
	return b.measureIdle(ctx)
}

// start starts the processes of all subjects.
func (b *bench) start(dir, socket string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	for i, name := range []string{nameFloor, nameDurable, nameOurs, namePeer} {
		program := own
		if name == namePeer {
			program = b.peer
		}
		if program == "" || !strings.Contains(name, b.subject) {
			continue
		}
		root := filepath.Join(dir, fmt.Sprint("root-", i))
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
		p, err := startProcess(program, subject.Config{Subject: name, Socket: socket, Root: root})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.subjects = append(b.subjects, p)
	}
	if len(b.subjects) == 0 {
		return fmt.Errorf("subject %q is not known", b.subject)
	}
	return nil
}

// order returns an order for the next volumes.
func (b *bench) order(work subject.Work, n, abreast int) subject.Order {
	o := subject.Order{Work: work, First: b.next, Last: b.next + n - 1, Abreast: abreast}
	b.next += n
	return o
}

// measure lets the subjects work in turns, and prints the results. The first round is not counted.
func (b *bench) measure(ctx context.Context, abreast int) error {
	results := make([]result, len(b.subjects))
	for round := range b.rounds + 1 {
		for i := range b.subjects {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			i = (i + round) % len(b.subjects)
			b.driver.takeCalls()
			report, err := b.subjects[i].do(b.order(subject.UpAndDown, b.volumes, abreast))
			if err != nil {
				return err
			}
			if round > 0 {
				results[i].add(report, b.driver.takeCalls())
			}
		}
	}
	b.print(abreast, results)
	return nil
}

func (r *result) add(report subject.Report, calls map[string]int) {
	r.times = append(r.times, report.Times...)
	r.volumes += len(report.Times)
	r.all += report.All
	r.cpu += report.CPU
	if r.calls == nil {
		r.calls = map[string]int{}
	}
	for method, n := range calls {
		r.calls[method] += n
	}
}

// typical returns the time for a volume: the median for one volume after another, else the mean.
func (r *result) typical(abreast int) time.Duration {
	if abreast > 1 {
		return r.all / time.Duration(r.volumes)
	}
	slices.Sort(r.times)
	return r.times[len(r.times)/2]
}

func (b *bench) print(abreast int, results []result) {
	way := "one volume after another: median times"
	if abreast > 1 {
		way = fmt.Sprintf("%d volumes at the same time: mean times", abreast)
	}
	_, _ = fmt.Fprintf(b.out, "\n%s of %d volumes for each subject\n", way, b.rounds*b.volumes)
	table := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "subject\ttime\tof the first\tCPU\tcalls")
	first := results[0].typical(abreast)
	for i, r := range results {
		took := r.typical(abreast)
		_, _ = fmt.Fprintf(table, "%s\t%v\t%.2f\t%v\t%s\n", b.subjects[i].name, took.Round(time.Microsecond),
			float64(took)/float64(first), (r.cpu / time.Duration(r.volumes)).Round(time.Microsecond), r.callsText())
	}
	_ = table.Flush()
}

// callsText returns the calls for each volume.
func (r *result) callsText() string {
	all := 0
	var parts []string
	for _, method := range slices.Sorted(maps.Keys(r.calls)) {
		all += r.calls[method]
		parts = append(parts, fmt.Sprintf("%s %.2f", method, float64(r.calls[method])/float64(r.volumes)))
	}
	return fmt.Sprintf("%.2f: %s", float64(all)/float64(r.volumes), strings.Join(parts, ", "))
}

// measureIdle brings many volumes up, and measures a time without changes.
func (b *bench) measureIdle(ctx context.Context) error {
	if b.up == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(b.out, "\n%d volumes that are up, for %v without a change\n", b.up, b.idle)
	for _, p := range b.subjects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		before, err := p.do(subject.Order{Work: subject.Idle, Time: time.Second})
		if err != nil {
			return err
		}
		volumes := b.order(subject.Up, b.up, b.abreast)
		if _, err := p.do(volumes); err != nil {
			return err
		}
		// Goroutines of calls end, and the collector of garbage runs.
		if _, err := p.do(subject.Order{Work: subject.Idle, Time: time.Second}); err != nil {
			return err
		}
		b.driver.takeCalls()
		report, err := p.do(subject.Order{Work: subject.Idle, Time: b.idle})
		if err != nil {
			return err
		}
		calls := 0
		for _, n := range b.driver.takeCalls() {
			calls += n
		}
		_, _ = fmt.Fprintf(b.out, "%s: %d calls, %v CPU, %d goroutines; %d before the volumes\n", p.name, calls, report.CPU, report.Goroutines, before.Goroutines)
		volumes.Work = subject.Down
		if _, err := p.do(volumes); err != nil {
			return err
		}
	}
	return nil
}
