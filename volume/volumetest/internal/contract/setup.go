package contract

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) setUp() {
	spec, mounter := c.mustSetUp()
	for range 2 {
		require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
		// As after a restart.
		require.NoError(c, c.newMounter(copyOf(spec)).SetUp(c.Context(), volume.MounterArgs{}))
	}
	c.requireUp(mounter.GetPath())
	c.mustTearDown(spec)
}

func (c *contract) setUpAt() {
	spec := c.spec()
	dir, err := c.host.PodVolumeDir(c.pod.UID, c.plugin.GetPluginName(), "elsewhere")
	require.NoError(c, err)
	mounter := c.newMounter(spec)
	for range 2 {
		require.NoError(c, mounter.SetUpAt(c.Context(), dir, volume.MounterArgs{}))
	}
	c.requireUp(dir)
	unmounter := c.newUnmounter(spec)
	require.NoError(c, unmounter.TearDown(c.Context()), "nothing is at the volume's own path")
	c.requireUp(dir)
	require.NoError(c, unmounter.TearDownAt(c.Context(), dir))
	c.requireGone(dir)
}

func (c *contract) setUpAtNoPath() {
	spec := c.spec()
	before := c.state()
	for _, dir := range []string{"", ".", "..", "relative/path", "/", "/a\x00b", "/a/../b"} {
		require.Error(c, c.newMounter(spec).SetUpAt(c.Context(), dir, volume.MounterArgs{}), "%q", dir)
	}
	c.requireUnchanged(before, "a refused path changed something")
}

func (c *contract) setUpConcurrently() {
	spec := c.spec()
	c.allAtOnce(func() error {
		mounter, err := c.plugin.NewMounter(spec, c.pod)
		if err != nil {
			return err
		}
		return mounter.SetUp(c.Context(), volume.MounterArgs{})
	})
	c.requireUp(c.newMounter(spec).GetPath())
	c.allAtOnce(func() error {
		unmounter, err := c.plugin.NewUnmounter(spec.Name(), c.pod.UID)
		if err != nil {
			return err
		}
		return unmounter.TearDown(c.Context())
	})
	c.requireGone(c.newMounter(spec).GetPath())
}

func (c *contract) upAndDownConcurrently() {
	spec := c.spec()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	c.allAtOnce(func() error {
		for range 5 {
			if err := mounter.SetUp(c.Context(), volume.MounterArgs{}); err != nil {
				return err
			}
			if err := unmounter.TearDown(c.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	c.requireGone(mounter.GetPath())
}

// allAtOnce calls work from eight goroutines.
func (c *contract) allAtOnce(work func() error) {
	c.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := work(); err != nil {
				c.Error(err)
			}
		})
	}
	wg.Wait()
}

func (c *contract) tearDown() {
	spec, _ := c.mustSetUp()
	c.mustTearDown(spec)
	c.mustTearDown(spec)
	require.NoError(c, c.newMounter(spec).SetUp(c.Context(), volume.MounterArgs{}), "up again")
	c.requireUp(c.newMounter(spec).GetPath())
	c.mustTearDown(spec)
}

func (c *contract) tearDownNothing() {
	before := c.state()
	c.mustTearDown(c.unchangedSpec(c.Spec()))
	unmounter, err := c.plugin.NewUnmounter("unknown", "of-no-pod")
	require.NoError(c, err)
	require.NoError(c, unmounter.TearDown(c.Context()))
	c.requireUnchanged(before, "taking nothing down changed something")
}

// tearDownStacked: an older program may have mounted a volume twice.
func (c *contract) tearDownStacked() {
	spec, mounter := c.mustSetUp()
	c.requireUp(mounter.GetPath())
	other := c.tempDir()
	file := filepath.Join(other, "file")
	require.NoError(c, os.WriteFile(file, []byte("precious"), 0o600))
	req := mount.Request{Source: other, Target: mounter.GetPath(), Stack: true}
	require.NoError(c, c.mounter.Mount(c.Context(), req))
	c.mustTearDown(spec)
	require.FileExists(c, file, "what was mounted upon the volume is not the volume's")
}

// tempDir returns a new directory whose path has no symbolic link.
func (c *contract) tempDir() string {
	c.Helper()
	dir, err := filepath.EvalSymlinks(c.TempDir())
	require.NoError(c, err)
	return dir
}

func (c *contract) keepsData() {
	if c.Backing == nil {
		c.Skip("the plugin's volumes show no directory of this node")
	}
	spec := c.spec()
	deep := filepath.Join(c.Backing(spec), "deep", "er")
	require.NoError(c, os.MkdirAll(deep, 0o750))
	file := filepath.Join(deep, "file")
	require.NoError(c, os.WriteFile(file, []byte("precious"), 0o600))
	mounter := c.newMounter(spec)
	for range 3 {
		require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
		c.mustTearDown(spec)
	}
	data, err := os.ReadFile(file)
	require.NoError(c, err, "TearDown has deleted a file"+hintEphemeral)
	require.Equal(c, "precious", string(data))
}

// keepsStrayData: files in the directory of a volume that is not mounted were written by a
// program that expected the mount: they may be the only copy of its data.
func (c *contract) keepsStrayData() {
	if c.Ephemeral {
		c.Skip("what is in the plugin's volumes goes with them")
	}
	spec := c.spec()
	unmounter := c.newUnmounter(spec)
	file := filepath.Join(unmounter.GetPath(), "deep", "file")
	require.NoError(c, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(c, os.WriteFile(file, []byte("precious"), 0o600))
	require.Error(c, unmounter.TearDown(c.Context()), "the directory cannot have been removed"+hintEphemeral)
	data, err := os.ReadFile(file)
	require.NoError(c, err)
	require.Equal(c, "precious", string(data))
}

// forgetsData: files that a pod leaves in an ephemeral volume are gone for the next pod.
func (c *contract) forgetsData() {
	if !c.Ephemeral {
		c.Skip("what is in the plugin's volumes stays")
	}
	spec := c.spec()
	mounter := c.newMounter(spec)
	for range 3 {
		require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
		dir := filepath.Join(mounter.GetPath(), "left")
		require.NoDirExists(c, dir, "the last pod has left the directory"+hintPersistent)
		require.NoError(c, os.MkdirAll(filepath.Join(dir, "deep"), 0o700))
		file, err := os.OpenFile(filepath.Join(dir, "file"), os.O_CREATE|os.O_RDONLY, 0o400)
		require.NoError(c, err) // nothing is written: hugetlbfs does not support it
		require.NoError(c, file.Close())
		_ = os.Symlink(c.tempDir(), filepath.Join(dir, "link")) // hugetlbfs may refuse links, too
		require.NoError(c, c.newUnmounter(spec).TearDown(c.Context()), "the pod has left files"+hintPersistent)
		c.requireGone(mounter.GetPath())
	}
}

// keepsStrayFile: a file in the place of the directory stays.
func (c *contract) keepsStrayFile() {
	unmounter := c.newUnmounter(c.spec())
	file := unmounter.GetPath()
	require.NoError(c, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(c, os.WriteFile(file, []byte("precious"), 0o600))
	_ = unmounter.TearDown(c.Context()) // it may do nothing, or return an error about the file
	data, err := os.ReadFile(file)
	require.NoError(c, err)
	require.Equal(c, "precious", string(data))
}
