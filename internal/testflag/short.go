package testflag

import (
	"flag"
	"strconv"
)

// Short reports whether the program is a test binary that runs with -short, as testing.Short
// does.
func Short() bool {
	f := flag.Lookup("test.short")
	if f == nil {
		return false
	}
	short, err := strconv.ParseBool(f.Value.String())
	return short && err == nil
}
