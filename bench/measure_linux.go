package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A side is one implementation of a piece of work: ours, the peer's, or the system calls alone.
type side struct {
	prepare, tidy func() error           // before and after each time, not measured
	up, down      func() error           // measured together; down may be nil
	seen          func() (string, error) // the state, after up and after down: the same on all sides
	per           int                    // operations in up and down; 0: one
	failed        func() int             // operations that failed since the last call
}

// A trial is one piece of work, which all sides do in turns.
type trial struct {
	work              string
	size              int // see Row
	ours, peer, floor side
	rounds            int  // at most; 0: the bench's
	uncounted         bool // do not count system calls: too many to trace
}

// A bench is the process of one subject.
type bench struct {
	ctx     context.Context
	subject string
	dir     string // empty, in a mount namespace of the process
	mounts  []int  // sizes of crowds
	rounds  int
	budget  time.Duration // of a trial, after which no further round begins
	batch   time.Duration // for which short work is repeated in a round
	out     *json.Encoder
}

// fewestRounds is the number of rounds that a median needs at least, also beyond the budget.
const fewestRounds = 3

// measure runs a trial and writes its row.
func (b *bench) measure(t trial) error {
	row := Row{Subject: b.subject, Work: t.work, Size: t.size}
	all := []*contender{{name: "floor", side: t.floor}, {name: "ours", side: t.ours}, {name: "peer", side: t.peer}}
	var runners []*contender
	for _, c := range all {
		if c.up != nil {
			runners = append(runners, c)
		}
	}
	err := checkSame(runners)
	calibrate(runners, b.batch)
	if err == nil {
		err = b.runRounds(runners, t)
	}
	if err != nil {
		return fmt.Errorf("%s, %d: %w", t.work, t.size, err)
	}
	row.Floor, row.Peer, row.Ours = all[0].figures(), all[2].figures(), *all[1].figures()
	return b.out.Encode(row)
}

// runRounds runs the sides in turns, each round beginning with another side, and then counts their
// system calls.
func (b *bench) runRounds(runners []*contender, t trial) error {
	rounds := b.rounds
	if t.rounds > 0 {
		rounds = min(rounds, t.rounds)
	}
	begin := time.Now()
	for round := range rounds {
		if round >= min(fewestRounds, rounds) && time.Since(begin) > b.budget {
			break
		}
		for i := range runners {
			c := runners[(round+i)%len(runners)]
			if err := errors.Join(b.ctx.Err(), c.round()); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	if t.uncounted {
		return nil
	}
	for _, c := range runners {
		if err := c.countCalls(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// A contender is a side in a trial.
type contender struct {
	side
	name, refused     string
	fastest           time.Duration // of a few repetitions; 0: the work needs preparation
	times             int           // repetitions of up and down in one round
	time, cpu, allocs []float64
	calls             float64
	failures, tried   int
}

var errOtherWork = errors.New("the sides do not do the same work")

// checkSame runs each side once and compares the states.
func checkSame(runners []*contender) error {
	var want []string
	var of string
	for _, c := range runners {
		states, err := c.runOnce()
		if err != nil && c.name == "peer" {
			c.refused = lastCause(err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if len(states) == 0 {
			continue
		}
		if want == nil {
			want, of = states, c.name
		}
		for i := range states {
			if states[i] != want[i] {
				return fmt.Errorf("%w: %s has %.200q, %s %.200q", errOtherWork, of, want[i], c.name, states[i])
			}
		}
	}
	return nil
}

// lastCause returns the last cause of an error: the kernel's, mostly.
func lastCause(err error) string {
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return err.Error()
}

// runOnce does the work once and returns the states. It repeats work without preparation a few
// times, to measure its duration.
func (c *contender) runOnce() (states []string, err error) {
	for _, step := range []struct {
		do   func() error
		seen func() (string, error)
	}{{c.prepare, nil}, {c.up, c.seen}, {c.down, c.seen}, {c.tidy, nil}} {
		if step.do == nil {
			continue
		}
		if err := step.do(); err != nil {
			return nil, err
		}
		if step.seen == nil {
			continue
		}
		state, err := step.seen()
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	if c.prepare != nil || c.tidy != nil {
		return states, nil
	}
	c.fastest = time.Hour
	for range 3 {
		begin := time.Now()
		if err := c.work(); err != nil {
			return nil, err
		}
		c.fastest = min(c.fastest, time.Since(begin))
	}
	return states, nil
}

// calibrate makes ours and the floor repeat the work equally often in a round, so that both
// are equally warm.
func calibrate(runners []*contender, batch time.Duration) {
	const most = 1000
	short := time.Hour
	for _, c := range runners {
		if c.name != "peer" && c.fastest > 0 {
			short = min(short, c.fastest)
		}
	}
	for _, c := range runners {
		c.times = 1
		if c.name == "peer" {
			short = c.fastest
		}
		if c.fastest > 0 {
			c.times = int(min(max(batch/max(short, 1), 1), most))
		}
	}
}

// work does one repetition.
func (c *contender) work() error {
	err := c.up()
	if err == nil && c.down != nil {
		err = c.down()
	}
	return err
}

func (c *contender) repeat() error {
	for range c.times {
		if err := c.work(); err != nil {
			return err
		}
	}
	return nil
}

// runPrepared runs work between prepare and tidy.
func (c *contender) runPrepared(work func() error) error {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return err
		}
	}
	err := work()
	if err == nil && c.tidy != nil {
		err = c.tidy()
	}
	return err
}

// round measures one round: its time, processor time, allocations and failures, per operation.
func (c *contender) round() error {
	if c.refused != "" {
		return nil
	}
	return c.runPrepared(func() error {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		used, begin := processorTime(), time.Now()
		err := c.repeat()
		elapsed := time.Since(begin)
		used = processorTime() - used
		runtime.ReadMemStats(&after)
		operations := float64(c.times * max(c.per, 1))
		c.time = append(c.time, float64(elapsed.Nanoseconds())/1000/operations)
		c.cpu = append(c.cpu, float64(used.Nanoseconds())/1000/operations)
		c.allocs = append(c.allocs, float64(after.Mallocs-before.Mallocs)/operations)
		if c.failed != nil {
			c.failures += c.failed()
			c.tried += int(operations)
		}
		return err
	})
}

// countCalls counts the calls of a few repetitions, or none if tracing is forbidden.
func (c *contender) countCalls() error {
	if c.refused != "" {
		return nil
	}
	c.times = min(c.times, 50)
	return c.runPrepared(func() error {
		calls, err := countCalls(c.repeat)
		if errors.Is(err, errNoTracing) {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return nil
		}
		c.calls = float64(calls) / float64(c.times*max(c.per, 1))
		return err
	})
}

// figures returns the medians, or nil if the trial has no such side.
func (c *contender) figures() *Figures {
	if c.up == nil {
		return nil
	}
	f := &Figures{Time: median(c.time), CPU: median(c.cpu), Allocs: median(c.allocs), Calls: c.calls, Refused: c.refused}
	if c.tried > 0 {
		f.Failed = float64(c.failures) / float64(c.tried)
	}
	return f
}

// processorTime returns the processor time of this process, including the kernel's, and of the
// programs that it has run and that have ended.
func processorTime() time.Duration {
	var own unix.Timespec
	var children unix.Rusage
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own) != nil || unix.Getrusage(unix.RUSAGE_CHILDREN, &children) != nil {
		return 0
	}
	return time.Duration(own.Nano() + children.Utime.Nano() + children.Stime.Nano())
}
