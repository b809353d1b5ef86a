package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// A part is a measurement of a subject on a cluster.
type part struct {
	name    string
	rounds  bool // it is repeated
	measure func(context.Context, *cluster) error
}

var parts = []part{
	{"attach and detach", true, attachPods},
	{"attacher alone", true, attachByAttacher},
	{"provision", true, provisionVolumes},
	{"churn", false, churn},
	{"memory of companions", false, measureMemory},
}

func run(ctx context.Context, o options, out io.Writer) error {
	ours, err := o.ours.absolute()
	if err != nil {
		return err
	}
	ours.name = "ours"
	subjects := []programs{ours}
	if !o.theirs.isLeftOut {
		peer, err := theirs()
		if err != nil {
			return err
		}
		subjects = append(subjects, peer)
	}
	for _, p := range parts {
		if !strings.Contains(p.name, o.parts) {
			continue
		}
		_, _ = fmt.Fprintf(out, "\n%s: %d volumes, %d nodes\n", p.name, o.volumes, o.nodes)
		rounds := 1
		if p.rounds {
			rounds = o.rounds
		}
		contenders := subjects
		if p.name == "provision" {
			unguarded := ours
			unguarded.name, unguarded.flags = "ours, unguarded", []string{"--unguarded-claims"}
			contenders = append([]programs{unguarded}, subjects...)
		}
		for round := range rounds {
			for i := range contenders {
				subject := contenders[(i+round)%len(contenders)]
				if err := onCluster(ctx, o, subject, out, p.measure); err != nil {
					return fmt.Errorf("%s, %s: %w", p.name, subject.name, err)
				}
			}
		}
	}
	return nil
}

// with calls work while programs run that have read their objects.
func (c *cluster) with(ctx context.Context, t *team, err error, work func(*team) error) error {
	if err != nil {
		return err
	}
	defer t.stop()
	if err := c.awaitReady(ctx, t); err != nil {
		return err
	}
	if err := work(t); err != nil {
		return fmt.Errorf("%w%s", err, t.messages())
	}
	return nil
}

// awaitReady waits until the programs have nothing to do: their processor time stays.
func (c *cluster) awaitReady(ctx context.Context, t *team) error {
	var last kubeserver.ProgramUsage
	for {
		if err := pause(ctx, settling); err != nil {
			return err
		}
		now, err := t.usage()
		if err != nil {
			return err
		}
		if now.CPU-last.CPU < settling/20 {
			return nil
		}
		last = now
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A phase measures a step of programs until its end.
type phase struct {
	time  time.Duration
	cpu   time.Duration
	calls requests
}

// A step is a request of the benchmark for each volume.
type step struct {
	request string // as in requests
	events  bool   // the programs send an event for each volume
	do      func(ctx context.Context, i int) error
}

// phase makes a step for each volume, and waits until it is done. Calls within the time to settle afterwards count.
func (c *cluster) phase(ctx context.Context, t *team, s step, done func(context.Context) error) (p phase, err error) {
	before, err := c.readRequests(ctx)
	if err != nil {
		return p, err
	}
	used, err := t.usage()
	if err != nil {
		return p, err
	}
	start := time.Now()
	if err = each(c.volumes, func(i int) error { return s.do(ctx, i) }); err == nil {
		err = done(ctx)
	}
	if err != nil {
		return p, err
	}
	p.time = time.Since(start)
	if s.events {
		if err := c.awaitEvents(ctx, before); err != nil {
			return p, err
		}
	}
	if err := c.awaitReady(ctx, t); err != nil {
		return p, err
	}
	after, err := c.readRequests(ctx)
	if err != nil {
		return p, err
	}
	now, err := t.usage()
	p.cpu, p.calls = now.CPU-used.CPU, after.since(before)
	p.calls[s.request] -= c.volumes
	return p, err
}

// eventLimit is the time in which the events of a step come. Programs may drop events: then the step ends without them.
const eventLimit = time.Minute

// awaitEvents waits until the programs have sent an event for each volume: they do so beside their other work.
func (c *cluster) awaitEvents(ctx context.Context, before requests) error {
	for start := time.Now(); time.Since(start) < eventLimit; {
		now, err := c.readRequests(ctx)
		if err != nil || now.since(before)["POST events"] >= c.volumes {
			return err
		}
		if err := pause(ctx, settling/10); err != nil {
			return err
		}
	}
	return nil
}

// print prints a phase.
func (c *cluster) print(name string, p phase) {
	_, _ = fmt.Fprintf(c.out, "  %-15s %-9s %6.2f s, %5.0f in a second, CPU %5.2f s, %s\n",
		c.subject.name, name, p.time.Seconds(), float64(c.volumes)/p.time.Seconds(), p.cpu.Seconds(), p.calls.perVolume(c.volumes))
}
