package container

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// A Volume is a volume of the pod that is set up.
type Volume struct {
	Name     string
	Path     string // its directory, or its device
	Spec     *volume.Spec
	ReadOnly bool // to containers
	Device   bool // Path is a symbolic link to a block device
	// NotWritten: containers do not write to it, though the plugin does.
	NotWritten bool
}

// A Container uses volumes.
type Container struct {
	Table  mount.Table
	Base   string                           // a directory that printed paths begin at
	Printf func(format string, args ...any) // prints a line about a use

	InMemory bool // the kernel is one of mounttest
	// Resolve returns where a path leads, as mounttest.Fake.RealPath does.
	Resolve func(path string) (real string, readOnly bool, err error)
}

// List returns a table of the volumes, as the mount table has them, with paths below dir.
func (c Container) List(volumes []Volume, dir string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VOLUME\tMODE\tDIRECTORY\tMOUNTED FROM")
	for _, v := range volumes {
		mode, from := c.describe(v)
		if v.NotWritten {
			mode = "ro"
		}
		at := strings.TrimPrefix(filepath.ToSlash(v.Path), dir+"/")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, mode, cli.Plain(at), from)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// describe returns how the volume is mounted, "rw" or "ro", and from where.
func (c Container) describe(v Volume) (mode, from string) {
	if v.Device {
		from, err := os.Readlink(v.Path)
		if err != nil {
			return modeOf(v.ReadOnly), cli.Plain(err.Error())
		}
		return modeOf(v.ReadOnly), cli.Plain(from) + " (a block device)"
	}
	info, ok := c.Table.At(filepath.ToSlash(v.Path))
	if !ok {
		return "rw", "a directory of its own"
	}
	mode, _, _ = strings.Cut(info.Flags.String(), ",")
	return mode, c.describeMount(v, info)
}

func (c Container) describeMount(v Volume, info mount.Info) string {
	switch {
	case info.FSType == "tmpfs" && info.Root == "/":
		return "memory (tmpfs)"
	case strings.HasPrefix(info.FSType, "nfs"):
		return fmt.Sprintf("%s (%s)", cli.Plain(info.Source), cli.Plain(info.FSType))
	}
	origin := path.Join("?", info.Root)
	if origins := c.Table.Origins(filepath.ToSlash(v.Path)); len(origins) > 0 {
		origin = c.relative(origins[0])
	}
	return fmt.Sprintf("%s (%s on %s)", origin, cli.Plain(info.FSType), cli.Plain(info.Source))
}

func modeOf(readOnly bool) string {
	if readOnly {
		return "ro"
	}
	return "rw"
}

// relative returns a path as it is seen from the base.
func (c Container) relative(name string) string {
	rest, ok := strings.CutPrefix(filepath.ToSlash(name), filepath.ToSlash(c.Base)+"/")
	if !ok {
		rest = name
	}
	return cli.Plain(rest)
}
