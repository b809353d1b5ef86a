package subpath

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// An InputError says which field of the input is wrong. Nothing was changed.
type InputError struct {
	Field, Value, Reason string
}

func (e *InputError) Error() string {
	return fmt.Sprintf("subpath: %s %s: %s", e.Field, quote(e.Value), e.Reason)
}

const (
	maxName = 255
	maxPath = 4095
)

func (r Request) check() error {
	if err := checkPlace(r.PodDir, r.Volume); err != nil {
		return err
	}
	for _, field := range []struct{ name, value, reason string }{
		{"Container", r.Container, badName(r.Container)},
		{"VolumeDir", r.VolumeDir, badDirectory(r.VolumeDir)},
		{"Path", r.Path, badPath(r.Path)},
	} {
		if field.reason != "" {
			return &InputError{Field: field.name, Value: field.value, Reason: field.reason}
		}
	}
	switch {
	case len(r.Target()) > maxPath:
		return &InputError{Field: "PodDir", Value: r.PodDir, Reason: "too long for what is below it"}
	case r.Index < 0:
		return &InputError{Field: "Index", Value: fmt.Sprint(r.Index), Reason: "negative"}
	case r.Submounts < mount.RefuseSubmounts || r.Submounts > mount.IncludeSubmounts:
		return &InputError{Field: "Submounts", Value: fmt.Sprint(int(r.Submounts)), Reason: "no such way to treat them"}
	}
	return nil
}

func checkPlace(podDir, volume string) error {
	if reason := badDirectory(podDir); reason != "" {
		return &InputError{Field: "PodDir", Value: podDir, Reason: reason}
	}
	if reason := badName(volume); reason != "" {
		return &InputError{Field: "Volume", Value: volume, Reason: reason}
	}
	return nil
}

func badName(name string) string {
	switch {
	case name == "":
		return "empty"
	case name == "." || name == "..":
		return "not the name of an entry"
	case strings.ContainsAny(name, "/\x00"):
		return "not one component of a path"
	case len(name) > maxName:
		return "too long"
	}
	return ""
}

func badDirectory(name string) string {
	switch {
	case !path.IsAbs(name):
		return "not absolute"
	case path.Clean(name) == "/":
		return "the root of the file system hierarchy"
	}
	return badParts(name)
}

func badPath(name string) string {
	switch {
	case name == "":
		return "empty"
	case path.IsAbs(name):
		return "not relative"
	case len(split(name)) > maxDepth:
		return "too deep"
	}
	return badParts(name)
}

func badParts(name string) string {
	switch {
	case strings.ContainsRune(name, 0):
		return "has a NUL"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".."`
	case len(name) > maxPath:
		return "too long"
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > maxName }):
		return "a component is too long"
	}
	return ""
}

// quote shortens in the middle: both ends of a long path say something.
func quote(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%q...%q", s[:most/2], s[len(s)-most/2:])
	}
	return fmt.Sprintf("%q", s)
}
