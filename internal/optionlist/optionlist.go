// Package optionlist reads lists of mount options: those that users write for mount(8), and those
// that the kernel prints.
package optionlist

import "strings"

// Split returns the options of a list: it splits at commas outside of double quotes, as
// mount(8) does, and drops blanks around options and empty options. The quotes remain. After a
// quote without an end no comma splits: the last option is for the caller to refuse.
func Split(list string) (options []string) {
	quoted, begin := false, 0
	for i := 0; i <= len(list); i++ {
		switch {
		case i < len(list) && list[i] == '"':
			quoted = !quoted
		case i == len(list) || list[i] == ',' && !quoted:
			if option := strings.TrimSpace(list[begin:i]); option != "" {
				options = append(options, option)
			}
			begin = i + 1
		}
	}
	return options
}

// JoinLabels returns options that the kernel has printed and that were split at all commas: it
// joins the parts of SELinux labels again. The kernel escapes commas in other values, and puts
// labels with commas in quotes. The result is in the memory of the parts.
func JoinLabels(parts []string) []string {
	list := parts[:0]
	for _, part := range parts {
		if last := len(list) - 1; last >= 0 && isOpenLabel(list[last]) {
			list[last] += "," + part
		} else {
			list = append(list, part)
		}
	}
	return list
}

// isOpenLabel reports whether an option is the beginning of an SELinux label in quotes.
func isOpenLabel(option string) bool {
	key, value, _ := strings.Cut(option, "=")
	return IsLabel(key) && strings.HasPrefix(value, `"`) && (len(value) == 1 || !strings.HasSuffix(value, `"`))
}

// IsLabel reports whether options with this name set SELinux labels.
func IsLabel(key string) bool {
	switch key {
	case "context", "fscontext", "defcontext", "rootcontext":
		return true
	}
	return false
}
