package helper

import (
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/spec"
)

// A Catalog has the helpers of a configuration.
type Catalog struct {
	Dirs  []string // nil: the system's directories, for network and configured types
	Types map[string]Type
}

// A Type describes the mounts of a configured type.
type Type struct {
	MountedAs []string // types in the mount table; empty: the type itself, also after "fuse."
	AnySource bool     // accept any source in the mount table
}

// A networkType describes the mounts of a network type.
type networkType struct {
	kernelCan bool // the kernel can mount the type without a helper
	mountedAs []string
}

var networkTypes = map[string]networkType{
	"nfs": {true, nfsTypes}, "nfs4": {true, nfsTypes},
	"cifs": {false, cifsTypes}, "smb3": {false, cifsTypes},
	"ceph": {}, "glusterfs": {},
}

var (
	nfsTypes  = []string{"nfs", "nfs4"}
	cifsTypes = []string{"cifs", "smb3"}
)

// hasHelper reports whether a helper mounts the type.
func (c *Catalog) hasHelper(fsType string) bool {
	_, configured := c.Types[fsType]
	_, network := networkTypes[fsType]
	return configured || network
}

// A Mount is a mounted file system, as the mount table shows it.
type Mount struct{ FSType, Source string }

// IsMountOf reports whether a mount is of the type and from the source of a spec. Some types
// and sources have several names.
func (c *Catalog) IsMountOf(m Mount, s *spec.Spec) bool {
	return c.isOfType(m.FSType, s.FSType) && c.isFrom(m.Source, s)
}

func (c *Catalog) isOfType(have, want string) bool {
	if !c.hasHelper(want) {
		return have == want
	}
	types := c.Types[want].MountedAs
	if len(types) == 0 {
		types = networkTypes[want].mountedAs
	}
	if len(types) == 0 {
		types = []string{want, "fuse." + want}
	}
	return slices.Contains(types, have)
}

// isFrom compares sources. The mount table shows a Ceph cluster's monitors by address, and
// may show other monitors.
func (c *Catalog) isFrom(have string, s *spec.Spec) bool {
	want := s.Source
	if s.FSType == "ceph" {
		have, want = have[strings.LastIndex(have, ":")+1:], want[strings.LastIndex(want, ":")+1:]
	}
	if c.hasHelper(s.FSType) {
		have, want = strings.TrimRight(have, "/"), strings.TrimRight(want, "/")
	}
	return have == want || c.Types[s.FSType].AnySource
}
