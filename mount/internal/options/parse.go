package options

import (
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount/internal/failure"
)

// Allow grants options beyond the safe ones.
type Allow struct {
	SUID    bool // "suid"
	Dev     bool // "dev"
	Context bool // the SELinux options "context=", "fscontext=", ...
}

// Parse checks mount(8) options and returns their meaning. It adds "nosuid" and "nodev"
// unless allow grants the opposite.
func Parse(list []string, allow Allow) (Options, error) {
	var o Options
	var seen contradictions
	for i, option := range list {
		field := FieldOf("Options", i)
		if err := checkOption(field, option, allow); err != nil {
			return Options{}, err
		}
		// Readers of a list of options, such as mount.nfs, would see the next ones in the quotes.
		if strings.Count(option, `"`)%2 != 0 {
			return Options{}, failure.NewInputError(field, option, "a quote has no end")
		}
		if err := seen.add(field, option); err != nil {
			return Options{}, err
		}
		o.add(option)
	}
	if !allow.SUID {
		o.Set |= NoSUID
	}
	if !allow.Dev {
		o.Set |= NoDev
	}
	return o, nil
}

// ParseNamed returns the meaning of options that [Parse] has accepted, and adds none.
func ParseNamed(list []string) Options {
	var o Options
	for _, option := range list {
		o.add(option)
	}
	return o
}

// FieldOf returns the field name of a list element for an InputError, such as "Options[2]".
func FieldOf(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// checkOption checks one option by itself.
func checkOption(field, option string, allow Allow) error {
	key, _, _ := strings.Cut(option, "=")
	switch {
	case key == "":
		return failure.NewInputError(field, option, "an option must have a name")
	case strings.ContainsAny(option, "\x00\n"):
		return failure.NewInputError(field, option, "an option must not contain NUL or newline")
	case strings.Contains(option, ",") && !isQuotedLabel(option) && !isQuotedComment(option):
		return failure.NewInputError(field, option, "an option must not contain commas, but for those of an SELinux label in quotes")
	case strings.HasPrefix(key, "X-"), strings.HasPrefix(key, "smackfs"):
		return failure.NewInputError(field, option, notForUsers)
	case allow.SUID && option == "suid", allow.Dev && option == "dev":
		return nil
	case allow.Context && optionlist.IsLabel(key):
		return nil
	case isComment(key):
		return nil
	}
	reason, refused := forbidden[key]
	if !refused {
		reason, refused = forbidden[option]
	}
	if refused {
		return failure.NewInputError(field, option, reason)
	}
	if _, flag := flagOptions[key]; key != option && (flag || ignored[key]) {
		return failure.NewInputError(field, option, "must not have a value")
	}
	return nil
}
