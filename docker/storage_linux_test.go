package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"golang.org/x/sys/unix"
)

// TestQuota: a file system with project quotas limits a volume to its size.
func TestQuota(t *testing.T) {
	disk := testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q"}, ProjectQuota: "prjquota"}
	disk.Run(t, func(t *testing.T, dir string) {
		mounter := mount.New(mount.Config{})
		t.Cleanup(func() { require.NoError(t, mounter.Close()) })
		r := newRig(t, func(string) Config {
			return Config{Mounter: mounter, Plugin: local.NewProvisioning(local.ProvisioningConfig{
				Config: local.Config{Mounter: mounter}, Provisioner: "docker", ClaimRoots: []string{dir},
			})}
		})
		require.NoError(t, r.create("data", map[string]string{"size": "8Mi", local.QuotaParameter: "require"}))
		path, err := r.mount("data", "a")
		require.NoError(t, err)
		write := func(name string, size int) error {
			return testbed.WithoutCapability(unix.CAP_SYS_RESOURCE, func() error {
				return os.WriteFile(path+"/"+name, make([]byte, size), 0o600)
			})
		}
		require.NoError(t, write("fits", 7<<20))
		err = write("more", 2<<20)
		require.True(t, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT), err)
		require.EqualValues(t, 8<<20, r.status("data", "capacity"))
		require.NoError(t, r.unmount("data", "a"))
		require.NoError(t, r.remove("data"))
	})
}

// TestNFSVolumes: a volume is a directory in an export, or a share of another server. While the server of the one is
// dead, the other has all calls, the calls that need no server answer at once, and the volume can be unmounted. After its
// server is back it is used again, and removed.
func TestNFSVolumes(t *testing.T) {
	far, near := testbed.Dir(t), testbed.Dir(t)
	require.NoError(t, os.Chmod(far, 0o777))
	server, other := nfsserver.ServeFar(t, nfsserver.Export{Dir: far}), nfsserver.Start(t, near)
	mounter := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 200 * time.Millisecond}})
	t.Cleanup(func() { require.NoError(t, mounter.Close()) })
	r := newRig(t, func(string) Config {
		return Config{Mounter: mounter, Share: NFSShare, Parameters: map[string]string{"onDelete": "delete"}, Plugin: nfs.NewProvisioning(nfs.ProvisioningConfig{
			Config: nfs.Config{Mounter: mounter}, Provisioner: "docker", Server: server.Address, Path: far, MountOptions: []string{"timeo=50"},
		})}
	})
	require.NoError(t, r.create("data", map[string]string{"size": "8Mi", "mode": "0750", "uid": "1000", "o": "timeo=50"}))
	path, err := r.mount("data", "a")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+"/file", []byte("data"), 0o600))
	found, err := filepath.Glob(far + "/docker-data-data-*/file")
	require.NoError(t, err)
	require.Len(t, found, 1)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Dir(found[0]), &st))
	require.Equal(t, []uint32{1000, unix.S_IFDIR | 0o750}, []uint32{st.Uid, st.Mode})
	require.NotZero(t, r.status("data", "capacity"))

	require.NoError(t, server.LinkDown())
	within := func(limit time.Duration, what string, call func() error) {
		t.Helper()
		begun := time.Now()
		require.NoError(t, call(), what)
		require.Less(t, time.Since(begun), limit, what)
	}
	life := func() error {
		if err := r.create("share", map[string]string{"share": other.Source(near), "o": "nosharecache"}); err != nil {
			return err
		}
		at, err := r.mount("share", "a")
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(at+"/file", nil, 0o600), r.unmount("share", "a"), r.remove("share"))
	}
	within(5*time.Second, "Get", func() error { _, err := r.get("data"); return err })
	require.Equal(t, []string{"data"}, r.names())
	within(5*time.Second, "the other server", life)
	require.FileExists(t, near+"/file")
	within(20*time.Second, "Unmount, which waits 10 seconds for the end of the file system", func() error { return r.unmount("data", "a") })
	require.Error(t, r.remove("data"))

	silent := nfsserver.Silent(t)
	require.NoError(t, r.create("silent", map[string]string{"share": silent.Source("/export"), "o": fmt.Sprintf("vers=4.2,port=%d", silent.Port)}))
	bounded, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = r.call(bounded, "VolumeDriver.Mount", request{Name: "silent", ID: "a"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	within(5*time.Second, "the other server, beside a mount that hangs", life)
	within(5*time.Second, "Get of its volume", func() error { _, err := r.get("silent"); return err })
	require.Eventually(t, func() bool { return r.remove("silent") == nil }, time.Minute, 100*time.Millisecond)

	require.NoError(t, server.LinkUp())
	require.Eventually(t, func() bool { return r.remove("data") == nil }, 2*time.Minute, 100*time.Millisecond)
	entries, err := filepath.Glob(far + "/docker-data-data-*")
	require.NoError(t, err)
	require.Empty(t, entries)
}
