package main

import (
	"fmt"
	"io"
)

// A progressPrinter prints progress, line by line.
type progressPrinter struct{ io.Writer }

func (t progressPrinter) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t, format+"\n", args...)
}
