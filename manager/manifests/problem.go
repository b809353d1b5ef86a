package manifests

import (
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/oneline"
)

// A Problem is an error in the manifests.
type Problem struct {
	File     string // its name in the directory; empty: the problem is the directory's
	Document int    // in the file, from 1; 0: the problem is the whole file's
	Object   string // "Pod/web", or "" if unknown
	// Err is the cause: a *field.Error if it is a field.
	Err error
}

// Error returns one line, for any content and name of the file.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Document > 0 {
		fmt.Fprintf(&b, ", document %d", p.Document)
	}
	if p.Object != "" {
		fmt.Fprintf(&b, " (%s)", p.Object)
	}
	if b.Len() > 0 && p.Err != nil {
		b.WriteString(": ")
	}
	if p.Err != nil {
		b.WriteString(p.Err.Error())
	}
	return oneline.Of(b.String())
}

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }
