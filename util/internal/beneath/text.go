package beneath

import (
	"fmt"
	"iter"
	"strings"
)

// Named is how many entries an error names.
const Named = 20

// First is the end of a text about so many entries, of which the first ones are known:
// each with what there is to say about it.
func First(entries iter.Seq2[string, error], count int) string {
	var b strings.Builder
	separator := ":"
	for name, err := range entries {
		fmt.Fprintf(&b, "%s %s", separator, Quote(name))
		if err != nil {
			fmt.Fprintf(&b, " (%v)", err)
		}
		separator = ","
		count--
	}
	if count > 0 {
		fmt.Fprintf(&b, " and %d more", count)
	}
	return b.String()
}

// Errors are those of entries.
func Errors(entries iter.Seq2[string, error]) []error {
	var errs []error
	for _, err := range entries {
		errs = append(errs, err)
	}
	return errs
}

// Quote shortens in the middle: both ends of a long path say something.
func Quote(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%q...%q", s[:most/2], s[len(s)-most/2:])
	}
	return fmt.Sprintf("%q", s)
}
