package main

import (
	"fmt"
	"io"
)

// A teller tells what happens, in lines.
type teller struct{ io.Writer }

func (t teller) say(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
