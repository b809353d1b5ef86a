package nfs_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestNFSVersions: the version that is fixed is the one that is spoken, and without
// one it is the newest.
func TestNFSVersions(t *testing.T) {
	n := newNode(t, nfs.Config{})
	path := n.exported("a")
	for option, version := range map[string]string{
		"": "4.2", "vers=4": "4.2", "vers=4.2": "4.2", "nfsvers=4.1": "4.1", "v4.0": "4.0", "minorversion=1": "4.1",
	} {
		spec := n.pv(path)
		if option != "" {
			spec = n.pv(path, option)
		}
		at := n.setUp(spec, "1")
		require.Equal(t, "nfs4", at.FSType)
		require.Contains(t, at.SuperOptions, "vers="+version, option)
		require.Contains(t, at.SuperOptions, "hard", option)
		require.NotZero(t, at.Flags&mount.NoSUID, option)
		require.NotZero(t, at.Flags&mount.NoDev, option)
		n.requireShows(at, path)
		n.tearDown(spec, "1")
	}
}

// TestNFSOfKubelet: the mount of an export that a kubelet has made is taken over: it stays the same
// one, and gets nosuid and nodev, and ro for a pod that only reads.
func TestNFSOfKubelet(t *testing.T) {
	n := newNode(t, nfs.Config{})
	for uid, test := range map[string]struct {
		args volume.MounterArgs
		want mount.Flags
	}{
		"writes": {want: mount.NoSUID | mount.NoDev},
		"reads":  {args: volume.MounterArgs{ReadOnly: true}, want: mount.NoSUID | mount.NoDev | mount.ReadOnly},
	} {
		path := n.exported(uid)
		spec := n.pv(path)
		mounter := n.mounter(spec, uid)
		require.NoError(t, os.MkdirAll(mounter.GetPath(), 0o750))
		require.NoError(t, unix.Mount(n.server.Source(path), mounter.GetPath(), "nfs4", 0, n.server.Options("4.2")))
		before := n.mountAt(mounter.GetPath())
		require.Zero(t, before.Flags&test.want)
		for range 2 {
			require.NoError(t, mounter.SetUp(n.patientContext(), test.args))
			at := n.mountAt(mounter.GetPath())
			require.Equal(t, before.ID, at.ID)
			require.Equal(t, before.Flags|test.want, at.Flags)
		}
		n.tearDown(spec, uid)
	}
}

// requireShows checks that a volume is the directory of the server, and writable.
func (n *node) requireShows(at mount.Info, path string) {
	n.Helper()
	have, err := os.ReadFile(at.Mountpoint + "/precious")
	require.NoError(n, err)
	want, err := os.ReadFile(path + "/precious")
	require.NoError(n, err)
	require.Equal(n, string(want), string(have))
	require.NoError(n, os.WriteFile(at.Mountpoint+"/written", []byte("x"), 0o644))
	require.FileExists(n, path+"/written")
	require.NoError(n, os.Remove(at.Mountpoint+"/written"))
}

// TestNFSHosts: a server by its addresses, however written, and by name.
func TestNFSHosts(t *testing.T) {
	n := newNode(t, nfs.Config{})
	path := n.exported("a")
	for address, source := range map[string]string{
		"127.0.0.1": "127.0.0.1:", "::1": "[::1]:", "[::1]": "[::1]:", "0:0::1": "[::1]:",
		"localhost": "localhost:", "LocalHost": "localhost:",
	} {
		n.server.Address = address
		spec := n.pv(path)
		at := n.setUp(spec, "1")
		require.Equal(t, source+path, at.Source)
		n.requireShows(at, path)
		n.tearDown(spec, "1")
	}
}

// TestNFSReadOnly checks every way to make a volume read-only. The same export is writable
// for another pod at the same time, in either order.
func TestNFSReadOnly(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			path := n.exported("a")
			bySource, byClaim := n.pv(path), n.pv(path)
			nfsOf(bySource).ReadOnly = true
			byClaim.ReadOnly = true
			for name, by := range map[string]struct {
				spec *volume.Spec
				args volume.MounterArgs
			}{
				"source": {spec: bySource},
				"claim":  {spec: byClaim},
				"option": {spec: n.pv(path, "ro")},
				"pod":    {spec: n.pv(path), args: volume.MounterArgs{ReadOnly: true}},
			} {
				for _, writableFirst := range []bool{false, true} {
					if writableFirst {
						n.setUp(n.pv(path), "writer")
					}
					reader := n.mounter(by.spec, "reader")
					require.NoError(t, reader.SetUp(n.patientContext(), by.args))
					if !writableFirst {
						n.setUp(n.pv(path), "writer")
					}
					at := n.mountAt(reader.GetPath())
					require.NotZero(t, at.Flags&mount.ReadOnly, name)
					require.ErrorIs(t, os.WriteFile(at.Mountpoint+"/x", nil, 0o644), unix.EROFS, name)
					n.requireShows(n.mountAt(n.mounter(n.pv(path), "writer").GetPath()), path)
					n.tearDown(by.spec, "reader")
					n.tearDown(n.pv(path), "writer")
				}
			}
			require.Empty(t, n.mountsBelowRoot())
		})
	}
}

// TestNFSOptions: the options are in the mount table.
func TestNFSOptions(t *testing.T) {
	n := newNode(t, nfs.Config{})
	path := n.exported("a")
	for option, want := range map[string][]string{
		"soft": {"soft"}, "timeo=77": {"timeo=77"}, "retrans=5": {"retrans=5"},
		"rsize=65536": {"rsize=65536"}, "wsize=65536": {"wsize=65536"},
		"actimeo=7": {"acregmin=7", "acregmax=7", "acdirmin=7", "acdirmax=7"},
		"noac":      {"noac"}, "nocto": {"nocto"}, "lookupcache=none": {"lookupcache=none"},
		"nconnect=2": {"nconnect=2"}, "sec=sys": {"sec=sys"}, "proto=tcp": {"proto=tcp"},
		"noresvport": {"noresvport"}, "nordirplus": {"nordirplus"},
	} {
		spec := n.pv(path, option)
		at := n.setUp(spec, "1")
		require.Subset(t, at.SuperOptions, want, option)
		n.tearDown(spec, "1")
	}
	for option, flag := range map[string]mount.Flags{
		"noexec": mount.NoExec, "noatime": mount.NoAtime, "nodiratime": mount.NoDirAtime,
	} {
		spec := n.pv(path, option)
		at := n.setUp(spec, "1")
		require.NotZero(t, at.Flags&flag, option)
		n.tearDown(spec, "1")
	}
}

// TestNFSReconstruction: a program that has just been started recovers a volume with all
// that it had, and brings it up again the same.
func TestNFSReconstruction(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			path := n.exported("a")
			readOnly := n.pv(path, "noexec", "soft", "timeo=50", "vers=4.1", "nocto")
			nfsOf(readOnly).ReadOnly = true
			for _, spec := range []*volume.Spec{
				n.inline(path), n.pv(path, "retrans=4", "noatime", "actimeo=9", "nconnect=2"), readOnly,
			} {
				before := n.setUp(spec, "1")
				want, err := n.plugin.GetVolumeName(spec)
				require.NoError(t, err)

				c.Mounter = n.mounts
				n.plugin = nfs.New(c)
				require.NoError(t, n.plugin.Init(t.Context(), n.host))
				found, err := n.plugin.ConstructVolumeSpec(t.Context(), spec.Name(), before.Mountpoint)
				require.NoError(t, err)
				have, err := n.plugin.GetVolumeName(found.Spec)
				require.NoError(t, err)
				require.Equal(t, want, have)
				require.Equal(t, nfsOf(spec), nfsOf(found.Spec))
				require.Equal(t, spec.IsReadOnly(), found.Spec.IsReadOnly())

				require.Equal(t, before.ID, n.setUp(found.Spec, "1").ID, "it is up already")
				require.Equal(t, before.ID, n.setUp(spec, "1").ID, "and as it was asked for")
				n.tearDown(found.Spec, "1")
				require.Empty(t, n.mountsBelowRoot())
				again := n.setUp(found.Spec, "1")
				require.Equal(t, before.Flags, again.Flags)
				require.Equal(t, sorted(before.SuperOptions), sorted(again.SuperOptions))
				require.Equal(t, before.Source, again.Source)
				n.tearDown(spec, "1")
				require.Empty(t, n.mountsBelowRoot())
			}
		})
	}
}

func sorted(options []string) []string {
	options = slices.Clone(options)
	slices.Sort(options)
	return options
}
