package csitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A Call is a call that a [Driver] has received.
type Call struct {
	Number   int // from 1
	Method   Method
	Request  proto.Message // without its secrets
	Secrets  Secrets
	Started  time.Time
	Ended    time.Time     // zero: the driver still works on it
	Response proto.Message // nil without success
	Err      error         // that the driver has returned, a status of package grpc
	// Lost says that the client had given up, or the driver was killed, before the end.
	Lost bool

	ctx    context.Context
	volume string // the key of its volume; empty: none
}

// Code returns the code that the driver has returned. It is codes.Unknown before the end.
func (c Call) Code() codes.Code {
	if c.Ended.IsZero() {
		return codes.Unknown
	}
	return status.Code(c.Err)
}

// String returns the call in one line: the method, and the fields of its request that are set, in
// the order of their numbers, such as
//
//	NodeUnpublishVolume volume_id=v target_path=/target: NotFound
//
// Of the secrets it returns the names.
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(string(c.Method))
	if text := Text(c.Request); text != "" {
		b.WriteString(" " + text)
	}
	if len(c.Secrets) > 0 {
		_, _ = fmt.Fprintf(&b, " secrets=%v", c.Secrets)
	}
	switch {
	case c.Ended.IsZero():
		b.WriteString(": not answered")
	case c.Lost:
		b.WriteString(": lost")
	case c.Err != nil:
		b.WriteString(": " + c.Code().String())
	}
	return b.String()
}

// isAwaited reports whether the client waits for the end of the call.
func (c *Call) isAwaited() bool { return c.Ended.IsZero() && !c.Lost && c.ctx.Err() == nil }

// Calls returns the calls since the driver was made or [Driver.ResetCalls] was called, in the order
// of their starts. Requests and responses must not be changed.
func (d *Driver) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := make([]Call, len(d.calls))
	for i, call := range d.calls {
		calls[i] = *call
	}
	return calls
}

// CallsOf returns the calls of the methods.
func (d *Driver) CallsOf(methods ...Method) []Call {
	return slices.DeleteFunc(d.Calls(), func(c Call) bool { return !slices.Contains(methods, c.Method) })
}

// ResetCalls forgets the calls so far. Calls in progress remain known to the driver.
func (d *Driver) ResetCalls() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = nil
}
