package provision

import "time"

// A retry is the pause after failures of one object.
type retry struct {
	failures int
	kind     failureKind // of the failures
	until    time.Time
	gaveUp   bool   // until the inputs change
	inputs   string // of the attempt that failed: other inputs end the pause
	text     string // of the last failure that was announced
}

// A failureKind tells failures apart whose numbers do not add up.
type failureKind int

const (
	hasFailed  failureKind = iota
	wasInUse               // the storage
	wasIgnored             // by this provisioner
)

// A pauseRule determines the pauses after failures.
type pauseRule struct {
	first, most time.Duration
	threshold   int // failures before the retries end; 0: they never end
	kind        failureKind
}

// pause returns whether the next attempt has to wait, and for how long. 0: until news.
func (r retry) pause(now time.Time, inputs string) (wait time.Duration, paused bool) {
	switch {
	case r.failures == 0, r.inputs != inputs:
		return 0, false
	case r.gaveUp:
		return 0, true
	case now.Before(r.until):
		return r.until.Sub(now), true
	}
	return 0, false
}

// begin begins an attempt. Other inputs end the failures.
func (r *retry) begin(inputs string) {
	if r.inputs != inputs {
		*r = retry{inputs: inputs, text: r.text}
	}
}

// fail counts a failure. isNew reports whether the text of the failure was not announced yet.
func (r *retry) fail(now time.Time, inputs, text string, rule pauseRule) (isNew bool) {
	r.begin(inputs)
	if isNew = r.text != text; r.kind != rule.kind {
		r.failures, r.kind = 0, rule.kind
	}
	r.failures++
	r.text = text
	r.until = now.Add(rule.pauseAfter(r.failures))
	r.gaveUp = rule.threshold > 0 && r.failures >= rule.threshold
	return isNew
}

// pauseAfter returns the pause after a number of failures: doubled with each one.
func (p pauseRule) pauseAfter(failures int) time.Duration {
	length := p.first
	for range failures - 1 {
		if length >= p.most/2 {
			return p.most
		}
		length *= 2
	}
	return min(length, p.most)
}
