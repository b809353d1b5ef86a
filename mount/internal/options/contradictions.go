package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// contradictions finds options that contradict an earlier one. The zero value is ready.
type contradictions struct {
	flags []string
	data  map[string]string // the option on each subject
}

// add records an option. It fails if the option contradicts a recorded one.
func (c *contradictions) add(field, option string) error {
	if earlier := c.record(option); earlier != "" {
		return failure.NewInputError(field, option, fmt.Sprintf("contradicts %q", text.Shorten(earlier)))
	}
	return nil
}

// record records an option, or returns the recorded option that it contradicts.
func (c *contradictions) record(option string) (earlier string) {
	if change, ok := flagOptions[option]; ok {
		for _, other := range c.flags {
			if change.contradicts(flagOptions[other]) {
				return other
			}
		}
		if !slices.Contains(c.flags, option) { // a hundred thousand repetitions count once
			c.flags = append(c.flags, option)
		}
		return ""
	}
	if isIgnored(option) {
		return ""
	}
	if c.data == nil {
		c.data = map[string]string{}
	}
	subject := subjectOf(option)
	if other, ok := c.data[subject]; ok && other != option {
		return other
	}
	if subject != "" {
		c.data[subject] = option
	}
	return ""
}

// subjectOf returns the subject of an option for a file system. Options that may be
// repeated ("lowerdir+=") have none.
func subjectOf(option string) string {
	key, _, hasValue := strings.Cut(option, "=")
	switch {
	case strings.HasSuffix(key, "+"):
		return ""
	case key == "async":
		return "sync"
	case !hasValue:
		return strings.TrimPrefix(key, "no")
	}
	return key
}
