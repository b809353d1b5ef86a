package manifests

import (
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/oneline"
)

// A Problem is something that is wrong with the manifests. It is an error.
type Problem struct {
	File     string // its name in the directory; empty: it is about the directory
	Document int    // in the file, from 1; 0: it is about the whole file
	Object   string // "Pod/web", as far as that is known
	// Err is what is wrong: a *field.Error if it is a field.
	Err error
}

// Error is one line, whatever the file holds or is called.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Document > 0 {
		fmt.Fprintf(&b, ", document %d", p.Document)
	}
	if p.Object != "" {
		fmt.Fprintf(&b, " (%s)", p.Object)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Err.Error())
	return oneline.Of(b.String())
}

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }

// short keeps hostile text from filling a line.
func short(text string) string {
	const limit = 64
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
