package subpath

import (
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
)

const operation input.Operation = "subpath"

// An InputError names the field of the input that was refused. Nothing was changed.
type InputError = input.Error

const maxPath = 4095

func (r Request) check() error {
	if err := checkPlace(r.PodDir, r.Volume); err != nil {
		return err
	}
	for _, field := range []struct{ name, value, reason string }{
		{"Container", r.Container, input.CheckName(r.Container)},
		{"VolumeDir", r.VolumeDir, badDirectory(r.VolumeDir)},
		{"Path", r.Path, badPath(r.Path)},
	} {
		if field.reason != "" {
			return operation.Refuse(field.name, field.value, field.reason)
		}
	}
	switch {
	case len(r.Target()) > maxPath:
		return operation.Refuse("PodDir", r.PodDir, "must be short enough for the paths below it")
	case r.Index < 0:
		return operation.Refuse("Index", r.Index, "must be at least 0")
	case r.Submounts < mount.RefuseSubmounts || r.Submounts > mount.IncludeSubmounts:
		return operation.Refuse("Submounts", int(r.Submounts), "unknown policy")
	}
	return nil
}

func checkPlace(podDir, volume string) error {
	if reason := badDirectory(podDir); reason != "" {
		return operation.Refuse("PodDir", podDir, reason)
	}
	if reason := input.CheckName(volume); reason != "" {
		return operation.Refuse("Volume", volume, reason)
	}
	return nil
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

// badPath returns why a path inside a volume is invalid, or "".
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
		return "must not contain NUL"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".."`
	case len(name) > maxPath:
		return "too long"
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > input.MaxName }):
		return "a component is too long"
	}
	return ""
}
