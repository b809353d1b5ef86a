package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
)

// findUse returns a process in whose mounts the volume is, beside the mounts of the driver and the copies of these in other
// namespaces; 0: there is none.
func (d *driver) findUse(ctx context.Context, use usage) (process int, err error) {
	switch {
	case peerOf(ctx) == "":
		return 0, errors.New("the processes of the machine are not visible")
	case use.Shown.Device == "":
		return 0, errors.New("its mounts are not known")
	}
	return ctxend.Await(ctx, ctxend.Kernel, func() (int, error) { return findMount(use.Shown) }, nil)
}

// findMount is findMountInProcesses, except in tests with a fake kernel.
var findMount = findMountInProcesses

type peerKey struct{}

// peerOf returns the process that makes the call, or "" if this process cannot see it.
func peerOf(ctx context.Context) string {
	peer, _ := ctx.Value(peerKey{}).(string)
	return peer
}

// caller returns the process that makes the call, and this process.
func (d *driver) caller(ctx context.Context) string { return peerOf(ctx) + " " + d.process }

// A mountIdentity is a volume as mount tables show it, with the kernel's escapes: see proc_pid_mountinfo(5).
type mountIdentity struct {
	Device string `json:"device"`
	Root   string `json:"root"`
	Source string `json:"source,omitempty"` // of NFS, whose mounts have one device and root for all directories of a server
	// Own are parts of the paths of the driver's mounts, of volumes and of this one's device. In the namespace of a managed
	// plugin's daemon their beginnings are others.
	Own []string `json:"own"`
	// Earlier are the paths of mounts that were there before the volume was up, as of a share that is a mount.
	Earlier []string `json:"earlier,omitempty"`
}

// identify returns how mount tables show a volume that is up; the zero value if it is not mounted.
func (d *driver) identify(ctx context.Context, name, deviceMount string) (mountIdentity, error) {
	table, err := d.config.Mounter.List(ctx)
	if err != nil {
		return mountIdentity{}, err
	}
	at, ok := mount.Table(table).At(d.path(name))
	if !ok {
		return mountIdentity{}, nil
	}
	device := func(m mount.Info) string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }
	is := mountIdentity{Device: device(at), Root: escape.Replace(at.Root)}
	if isNFS(at.FSType) {
		is.Source = escape.Replace(at.Source)
	}
	for _, own := range []string{d.mounts + "/", deviceMount} {
		if own != "" {
			is.Own = append(is.Own, escape.Replace(strings.TrimPrefix(own, d.config.Host.Root())))
		}
	}
	for _, m := range table {
		if path := escape.Replace(m.Mountpoint); is.has(device(m), escape.Replace(m.Root), path, m.FSType, escape.Replace(m.Source)) {
			is.Earlier = append(is.Earlier, path)
		}
	}
	return is, nil
}

func isNFS(fsType string) bool { return strings.HasPrefix(fsType, "nfs") }

// escape writes the paths of a mount table as the kernel does.
var escape = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)

// isIn reports whether a mount table has a mount of the volume, or of a directory in it, that is not the driver's own.
func (s mountIdentity) isIn(table string) bool {
	for line := range strings.Lines(table) {
		fields, system, _ := strings.Cut(line, " - ")
		of, about := strings.Fields(fields), strings.Fields(system)
		if len(of) > 4 && len(about) > 1 && s.has(of[2], of[3], of[4], about[0], about[1]) {
			return true
		}
	}
	return false
}

// has reports whether a mount shows the volume, or a directory in it, and is not the driver's own.
func (s mountIdentity) has(device, root, path, fsType, source string) bool {
	isOwn := slices.Contains(s.Earlier, path) || slices.ContainsFunc(s.Own, func(part string) bool { return strings.Contains(path, part) })
	return device == s.Device && !isOwn && isWithin(root, s.Root) && (!isNFS(fsType) || isWithin(source, s.Source))
}

// isWithin reports whether a path is a directory, or below it.
func isWithin(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, strings.TrimSuffix(directory, "/")+"/")
}
