package cli

import (
	"errors"
	"time"
)

// A Duration is a flag for a duration. Its error and its usage show the syntax.
type Duration time.Duration

var errDuration = errors.New("a time is a number with a unit, such as 90s, 5m or 1h30m")

// String returns the duration in the flag's syntax.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Set parses a duration.
func (d *Duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errDuration
	}
	*d = Duration(parsed)
	return nil
}

// DurationUsage returns the usage of a duration flag.
func DurationUsage(usage string) string { return usage + ": a `TIME` such as 90s, 5m or 1h30m" }
