// Package brief limits the length of error texts: paths and names from outside may be of
// any length, and the errors of package os have the whole path.
package brief

import (
	"io/fs"
	"strings"
)

// Longest is the largest length of an error's text in bytes.
const Longest = 1024

// Shorten replaces an error whose text is longer than [Longest] by one with the beginning
// and the end of the text, which hold operation and cause. The new error wraps the old
// one; a *fs.PathError is replaced by a shorter *fs.PathError, for os.IsNotExist and its
// like.
//
//	defer brief.Shorten(&err)
func Shorten(err *error) {
	if *err == nil || len((*err).Error()) <= Longest {
		return
	}
	var itself any = *err // errors.As would also find a wrapped *fs.PathError
	if path, ok := itself.(*fs.PathError); ok {
		cause := path.Err
		Shorten(&cause)
		*err = &fs.PathError{Op: path.Op, Path: Text(path.Path), Err: cause}
		return
	}
	*err = &shortened{*err}
}

type shortened struct{ err error }

func (s *shortened) Error() string { return Text(s.err.Error()) }

func (s *shortened) Unwrap() error { return s.err }

// Of returns err as Shorten shortens it.
func Of(err error) error {
	Shorten(&err)
	return err
}

// Name returns the first 128 bytes of a name or another short text from outside.
func Name(text string) string {
	const limit = 128
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// Text returns a text of at most [Longest] bytes: it omits the middle of a longer one.
func Text(text string) string {
	const dots = "..."
	if len(text) <= Longest {
		return text
	}
	const half = (Longest - len(dots)) / 2
	return strings.ToValidUTF8(text[:half], "") + dots + strings.ToValidUTF8(text[len(text)-half:], "")
}
