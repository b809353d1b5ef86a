package progress

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Interval is the time from the beginning of a step to its first report, and between its reports.
const Interval = time.Second

// A Step describes a step for [Begin].
type Step struct {
	Name   string // see the constants
	Object string
	// Unit and Count measure the work. Count returns the finished and the whole work (0: not known).
	// Goroutines of the receivers call it, also shortly after the end of the step; it must not block. Nil:
	// the step measures no work.
	Unit  string
	Count func() (done, total int64)
}

type key struct{}

// A receiver is compared by its address.
type receiver struct{ receive func(Report) }

// receiversOf returns the receivers of a context.
func receiversOf(ctx context.Context) []*receiver {
	all, _ := ctx.Value(key{}).([]*receiver)
	return all
}

// add returns ctx with further receivers, without those that it has.
func add(ctx context.Context, more ...*receiver) context.Context {
	all := slices.Clone(receiversOf(ctx))
	before := len(all)
	for _, r := range more {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	if len(all) == before {
		return ctx
	}
	return context.WithValue(ctx, key{}, all)
}

// With returns a context whose steps are reported to receive, besides the receivers that ctx has. Each step
// calls it from a goroutine, one report after the other; several steps may call it at once. A slow receiver misses
// reports and delays neither the step nor other receivers. The end of a step does not wait for its receivers, so
// the report of the end may come when the call with the step has returned. A panic of receive ends the program,
// as in any goroutine. Nil adds no receiver.
func With(ctx context.Context, receive func(Report)) context.Context {
	if receive == nil {
		return ctx
	}
	return add(ctx, &receiver{receive})
}

// Inherit returns ctx with the receivers of another context added, such as that of the server whose call
// ctx is for.
func Inherit(ctx, from context.Context) context.Context { return add(ctx, receiversOf(from)...) }

// Sparse returns a receiver that passes on few reports of a step: after one second, after ten, after each
// minute, and at the end if the step took at least a second. Sparse of nil is nil.
func Sparse(receive func(Report)) func(Report) {
	if receive == nil {
		return nil
	}
	return func(r Report) {
		if r.Ended || r.IsDue(time.Second, 0) || r.IsDue(10*time.Second, 0) || r.IsDue(time.Minute, time.Minute) {
			receive(r)
		}
	}
}

// Begin begins a step, which is reported to the receivers of ctx until end is called. It ends with end
// alone, not with ctx. Further calls of end do nothing.
func Begin(ctx context.Context, s Step) (end func()) {
	all := receiversOf(ctx)
	if len(all) == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	timers := make([]*time.Timer, len(all))
	for i, r := range all {
		reporter := &reporter{Step: s, receiver: r, began: time.Now(), ended: ended}
		timers[i] = time.AfterFunc(Interval, reporter.run)
	}
	return sync.OnceFunc(func() {
		for _, timer := range timers {
			timer.Stop()
		}
		close(ended)
	})
}

// A reporter reports one step to one receiver.
type reporter struct {
	Step
	*receiver
	began    time.Time
	previous time.Duration
	ended    <-chan struct{}
}

// run sends reports from the end of the first interval to the end of the step.
func (r *reporter) run() {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		r.send(false)
		select {
		case <-ticker.C:
		case <-r.ended:
		}
		if r.hasEnded() { // perhaps both
			r.send(true)
			return
		}
	}
}

func (r *reporter) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *reporter) send(ended bool) {
	report := Report{
		Step: r.Name, Object: r.Object, Unit: r.Unit, Elapsed: time.Since(r.began), Ended: ended, previous: r.previous,
	}
	if r.Count != nil {
		report.Done, report.Total = r.Count()
	}
	r.previous = report.Elapsed
	r.receive(report)
}
