package subject

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Read returns the Config of this process, and whether it is one of a subject.
func Read() (c Config, ok bool, err error) {
	text, ok := os.LookupEnv(Variable)
	if !ok {
		return c, false, nil
	}
	return c, true, json.Unmarshal([]byte(text), &c)
}

// Main carries orders out until the standard input ends.
func Main(client Client) error {
	input, output := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	orders := json.NewDecoder(input)
	for {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := output.Encode(client.carryOut(o)); err != nil {
			return err
		}
	}
}

// carryOut carries an order out.
func (c Client) carryOut(o Order) Report {
	work, ok := map[Work]func(int) error{Up: c.Up, Down: c.Down, UpAndDown: c.upAndDown}[o.Work]
	before, start := processorTime(), time.Now()
	var r Report
	var err error
	switch {
	case o.Work == Idle:
		time.Sleep(o.Time)
	case ok:
		r.Times, err = each(o, work)
	default:
		err = fmt.Errorf("work %q is not known", o.Work)
	}
	r.All, r.CPU, r.Goroutines = time.Since(start), processorTime()-before, runtime.NumGoroutine()
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func (c Client) upAndDown(number int) error {
	if err := c.Up(number); err != nil {
		return err
	}
	return c.Down(number)
}

// each works on all volumes of an order, and returns the time of each, and the first error.
func each(o Order, work func(int) error) (times []time.Duration, err error) {
	var mu sync.Mutex // guards the results and next
	var workers sync.WaitGroup
	next := o.First
	for range max(o.Abreast, 1) {
		workers.Go(func() {
			for {
				mu.Lock()
				number := next
				next++
				failed := err
				mu.Unlock()
				if number > o.Last || failed != nil {
					return
				}
				start := time.Now()
				ended := work(number)
				took := time.Since(start)
				mu.Lock()
				times = append(times, took)
				if ended != nil && err == nil {
					err = fmt.Errorf("volume %d: %w", number, ended)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return times, err
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // of a wrong argument alone
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
