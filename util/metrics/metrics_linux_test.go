package metrics_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/metrics"
	"golang.org/x/sys/unix"
)

func TestStatFS(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,nr_inodes=100"))
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	require.NoError(t, os.WriteFile(dir+"/file", make([]byte, 1<<20), 0o600))
	m, err := metrics.NewMetricsStatFS(dir).GetMetrics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 8<<20, m.Capacity.Value())
	require.EqualValues(t, 1<<20, m.Used.Value())
	require.EqualValues(t, 7<<20, m.Available.Value())
	require.EqualValues(t, 100, m.Inodes.Value())
	require.EqualValues(t, 2, m.InodesUsed.Value())
	require.EqualValues(t, 98, m.InodesFree.Value())
	require.False(t, m.Time.IsZero())
	available, capacity, usage, inodes, inodesFree, inodesUsed, err := metrics.Info(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, []int64{7 << 20, 8 << 20, 1 << 20, 100, 98, 2},
		[]int64{available, capacity, usage, inodes, inodesFree, inodesUsed})

	require.NoError(t, os.Mkdir(dir+"/sub", 0o755))
	require.NoError(t, os.WriteFile(dir+"/sub/file", make([]byte, 1<<16), 0o600))
	walker := &fsusage.Walker{MaxAge: time.Hour}
	for range 2 {
		m, err = metrics.NewMetricsDu(dir+"/sub", walker).GetMetrics(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 8<<20, m.Capacity.Value())
		require.EqualValues(t, 1<<16, m.Used.Value())
		require.EqualValues(t, 2, m.InodesUsed.Value())
		require.NoError(t, os.WriteFile(dir+"/sub/later", nil, 0o600))
	}
	m, err = metrics.NewMetricsDu(dir+"/sub", nil).GetMetrics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, m.InodesUsed.Value())
}

// TestZero: numbers that the file system does not report are 0, as drivers dereference
// all quantities.
func TestZero(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	unlimited := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", unlimited, "tmpfs", 0, "size=8m,nr_inodes=0"))
	defer func() { require.NoError(t, unix.Unmount(unlimited, 0)) }()
	for path, capacity := range map[string]int64{unlimited: 8 << 20, "/proc/self": 0, "/sys": 0} {
		for name, provider := range map[string]metrics.Provider{
			"StatFS": metrics.NewMetricsStatFS(path),
			"Du":     metrics.NewMetricsDu(path, nil),
		} {
			if name == "Du" && path != unlimited {
				continue // not a field of the volume
			}
			m, err := provider.GetMetrics(t.Context())
			require.NoError(t, err, path)
			require.Equal(t, capacity, m.Capacity.Value(), path)
			require.Equal(t, capacity, m.Available.Value(), path)
			require.Zero(t, m.Used.Value(), path)
			require.Zero(t, m.Inodes.Value(), path)
			require.Zero(t, m.InodesFree.Value(), path)
			if name == "StatFS" {
				require.Zero(t, m.InodesUsed.Value(), path)
			}
		}
	}
}

// TestErrors: a missing path is fs.ErrNotExist, and an ended context its own error, for each
// provider.
func TestErrors(t *testing.T) {
	none := t.TempDir() + "/none"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, p := range map[string]metrics.Provider{
		"statfs": metrics.NewMetricsStatFS(none),
		"du":     metrics.NewMetricsDu(none, nil),
		"block":  metrics.NewMetricsBlock(none),
	} {
		_, err := p.GetMetrics(t.Context())
		require.ErrorIs(t, err, fs.ErrNotExist, name)
		_, err = p.GetMetrics(ended)
		require.ErrorIs(t, err, context.Canceled, name)
	}
	_, err := metrics.NewMetricsBlock(t.TempDir()).GetMetrics(t.Context())
	require.ErrorIs(t, err, syscall.ENOTBLK)
}

func Example() {
	m, err := metrics.NewMetricsStatFS(os.TempDir()).GetMetrics(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Capacity.Value() > 0, m.Used.Cmp(*m.Capacity) <= 0)
	// Output: true true
}
