package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// recordRig is a plugin with a directory of records, in which no record is valid.
type recordRig struct {
	*local.Plugin
	dir string
}

func newRecordRig(t *testing.T) recordRig {
	t.Helper()
	root := t.TempDir()
	host, err := volume.NewHost(t.Context(), root)
	require.NoError(t, err)
	dir, err := host.PluginDir(local.PluginName)
	require.NoError(t, err)
	for _, sub := range []string{"/devices", "/devices.new"} {
		require.NoError(t, os.MkdirAll(dir+sub, 0o750))
	}
	p := local.New(local.Config{Mounter: mounttest.NewFake(mount.Config{}), Roots: []string{t.TempDir()}})
	require.NoError(t, p.Init(t.Context(), host))
	return recordRig{p, dir}
}

func (r recordRig) record() string { return filepath.Join(r.dir, "devices", "pv") }

// read returns the error of a read, which must not wait.
func (r recordRig) read(t *testing.T) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.ReadRecord("pv") }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the read waits")
		return nil
	}
}

// TestUnfitRecord: a record that is no regular file, or is too large, is a RecordError with the reason, until
// Forget removes it.
func TestUnfitRecord(t *testing.T) {
	for name, test := range map[string]struct {
		plant  func(record string) error
		reason string
	}{
		"pipe":      {func(record string) error { return syscall.Mkfifo(record, 0o600) }, "not a regular file"},
		"link":      {func(record string) error { return os.Symlink("../other", record) }, "not a regular file"},
		"directory": {func(record string) error { return os.Mkdir(record, 0o700) }, "not a regular file"},
		"too large": {func(record string) error {
			return os.WriteFile(record, []byte(`{"state":"block","path":"/dev/x","uid":"`+strings.Repeat("a", 1<<16)+`"}`), 0o600)
		}, "a record must have at most 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecordRig(t)
			require.NoError(t, os.WriteFile(r.dir+"/other", []byte(`{"state":"block","path":"/dev/x"}`), 0o600))
			require.NoError(t, test.plant(r.record()))
			err := r.read(t)
			var recordErr *local.RecordError
			require.ErrorAs(t, err, &recordErr)
			require.Equal(t, r.record(), recordErr.File)
			require.ErrorContains(t, err, test.reason)
			require.NotErrorIs(t, err, volume.ErrTransient)
			require.NoError(t, r.Forget(t.Context(), "pv"))
			require.NoError(t, r.read(t))
			require.FileExists(t, r.dir+"/other")
		})
	}
}

// TestLinkAtTemporaryRecord: a write does not follow a symbolic link at the name of the temporary file.
func TestLinkAtTemporaryRecord(t *testing.T) {
	r := newRecordRig(t)
	require.NoError(t, os.WriteFile(r.dir+"/victim", []byte("precious"), 0o600))
	require.NoError(t, os.Symlink("../victim", r.dir+"/devices.new/pv"))
	require.NoError(t, r.WriteBlockRecord("pv", "/dev/x"))
	text, err := os.ReadFile(r.dir + "/victim")
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	require.NoError(t, r.read(t))
	info, err := os.Lstat(r.record())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// TestUnreadRecord: a disk is not used while the record of another volume, which may permit a wipe of that disk,
// cannot be read.
func TestUnreadRecord(t *testing.T) {
	r := newRecordRig(t)
	device := disk.Identity{ID: "wwid:1"}
	require.NoError(t, r.WriteFormatRecord("pv", device))
	f, err := os.OpenFile(r.record(), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK) // other opens that do not wait fail
	require.NoError(t, err)
	require.ErrorIs(t, r.DisownRecords("other", device), syscall.EWOULDBLOCK)
	require.ErrorIs(t, r.read(t), volume.ErrTransient)
	require.NoError(t, f.Close())
	require.NoError(t, r.read(t))
	require.NoError(t, r.DisownRecords("other", device))
	require.NoFileExists(t, r.record())
}
