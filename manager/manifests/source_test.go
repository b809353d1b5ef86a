package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/dirwatch"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A testDir is a directory of manifests that a source watches.
type testDir struct {
	*testing.T
	path   string
	source *Source
}

func newDir(t *testing.T, change ...func(*Config)) *testDir {
	t.Helper()
	d := &testDir{T: t, path: t.TempDir()}
	config := Config{Dir: d.path, Node: "node-1", Settle: 20 * time.Millisecond, Poll: 20 * time.Millisecond}
	for _, change := range change {
		change(&config)
	}
	var err error
	d.source, err = New(t.Context(), config)
	require.NoError(t, err)
	return d
}

// run runs the source until the test ends.
func (d *testDir) run() {
	ctx, cancel := context.WithCancel(d.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.source.Run(ctx) }()
	d.Cleanup(func() {
		cancel()
		require.NoError(d, <-ended)
	})
}

// writeFile writes a file by a rename, as editors do.
func (d *testDir) writeFile(name, text string) {
	d.Helper()
	tmp := filepath.Join(d.path, ".tmp-"+name)
	require.NoError(d, os.WriteFile(tmp, []byte(text), 0o600))
	require.NoError(d, os.Rename(tmp, filepath.Join(d.path, name)))
}

func (d *testDir) remove(name string) { require.NoError(d, os.Remove(filepath.Join(d.path, name))) }

// pods returns the names and UIDs of the pods.
func (d *testDir) pods() map[string]types.UID {
	d.Helper()
	pods, err := d.source.Pods(d.Context())
	require.NoError(d, err)
	all := map[string]types.UID{}
	for _, pod := range pods {
		all[pod.Name] = pod.UID
	}
	return all
}

func (d *testDir) waitUntil(is func() bool) {
	d.Helper()
	require.Eventually(d, is, time.Minute, 5*time.Millisecond)
}

func (d *testDir) hasProblem(part string) bool {
	for _, p := range d.source.Problems() {
		if strings.Contains(p.Error(), part) {
			return true
		}
	}
	return false
}

func unsupportedWatch(context.Context, string, dirwatch.Func) error { return errors.ErrUnsupported }

// TestFilesAreFollowed: files are added, changed and removed, with inotify and by polls.
func TestFilesAreFollowed(t *testing.T) {
	for name, watch := range map[string]func(context.Context, string, dirwatch.Func) error{"watched": dirwatch.Watch, "polled": unsupportedWatch} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			d.source.watch = watch
			d.run()
			require.Empty(t, d.pods())
			d.writeFile("a.yaml", podYAML("a", "{name: x}"))
			d.writeFile("b.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}}`)
			d.writeFile("ignored.txt", podYAML("c"))
			d.waitUntil(func() bool { return len(d.pods()) == 2 })
			before := d.pods()
			d.writeFile("a.yaml", podYAML("a", "{name: z}"))
			d.waitUntil(func() bool { return d.pods()["a"] != before["a"] })
			require.Equal(t, before["b"], d.pods()["b"])
			d.writeFile("a.yaml", "# Moved, and back as it was.\n"+podYAML("a", "{name: x}"))
			d.waitUntil(func() bool { return d.pods()["a"] == before["a"] })
			d.remove("b.json")
			d.waitUntil(func() bool { return len(d.pods()) == 1 })
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestChangeIsSentToChannel: the channel receives a value after each change.
func TestChangeIsSentToChannel(t *testing.T) {
	d := newDir(t)
	d.run()
	for i := range 5 {
		d.writeFile("a.yaml", podYAML(fmt.Sprint("pod-", i)))
		for d.pods()[fmt.Sprint("pod-", i)] == "" {
			select {
			case <-d.source.Changed():
			case <-time.After(time.Minute):
				t.Fatal("no change is reported")
			}
		}
	}
}

// TestInvalidFileKeepsLastContent: an invalid file counts with its last valid content, and its problem is
// reported.
func TestInvalidFileKeepsLastContent(t *testing.T) {
	for name, test := range invalidManifests {
		if name == "too much data" || name == "too many" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDir(t)
			d.writeFile("f.yaml", podYAML("good")+secretYAML)
			d.writeFile("other.yaml", podYAML("other"))
			before := d.pods()
			require.Len(t, before, 2)
			d.run()
			d.writeFile("f.yaml", test.text)
			d.waitUntil(func() bool { return d.hasProblem(test.errText) })
			require.Equal(t, before, d.pods())
			d.writeFile("f.yaml", podYAML("good")+secretYAML)
			d.waitUntil(func() bool { return len(d.source.Problems()) == 0 })
			require.Equal(t, before, d.pods())
		})
	}
}

// TestUnreadableFileKeepsLastContent: a file that is too large or not regular, or a dangling link, counts
// with its last valid content, and its problem is reported.
func TestUnreadableFileKeepsLastContent(t *testing.T) {
	link := func(to string) func(string) error {
		return func(path string) error {
			return errors.Join(os.Symlink(to, path+".tmp"), os.Rename(path+".tmp", path))
		}
	}
	for errText, replace := range map[string]func(path string) error{
		"f.yaml: a file must have at most": func(path string) error { return os.Truncate(path, maxFile+1) },
		"f.yaml: not a regular file":       link("."),
		"f.yaml: stat ":                    link("nowhere"),
		"f.yaml: the file has no object":   func(path string) error { return os.Truncate(path, 0) },
	} {
		d := newDir(t)
		d.writeFile("f.yaml", podYAML("good"))
		before := d.pods()
		require.Len(t, before, 1)
		d.run()
		require.NoError(t, replace(filepath.Join(d.path, "f.yaml")))
		d.waitUntil(func() bool { return d.hasProblem(errText) })
		require.Equal(t, before, d.pods())
		d.writeFile("f.yaml", podYAML("good"))
		d.waitUntil(func() bool { return len(d.source.Problems()) == 0 })
		require.Equal(t, before, d.pods())
	}
}

// TestContentSurvivesRestart: the last valid content is available after a restart.
func TestContentSurvivesRestart(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "keep")
	d := newDir(t, func(c *Config) { c.Keep = keep })
	d.writeFile("f.yaml", podYAML("good"))
	d.writeFile("g.yaml", podYAML("gone"))
	before := d.pods()
	require.Len(t, before, 2)
	d.writeFile("f.yaml", podYAML("good")[:60])
	d.remove("g.yaml")

	again := newDir(t, func(c *Config) { c.Dir, c.Keep = d.path, keep })
	require.Equal(t, map[string]types.UID{"good": before["good"]}, again.pods())
	require.True(t, again.hasProblem("f.yaml"))
	names, err := os.ReadDir(keep)
	require.NoError(t, err)
	require.Len(t, names, 1)
	info, err := os.Stat(keep)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)

	forgetful := newDir(t, func(c *Config) { c.Dir = d.path })
	require.Empty(t, forgetful.pods())
}

// TestSavingKeepsPods: the pod of a file stays while the file is saved, in all ways in which editors do
// that.
func TestSavingKeepsPods(t *testing.T) {
	text := podYAML("pod", "{name: x}") + "---\n" + podYAML("other")
	for name, save := range map[string]func(path string) error{
		"moved away first": func(path string) error {
			return errors.Join(os.Rename(path, path+"~"), os.WriteFile(path, []byte(text), 0o600))
		},
		"in pieces": func(path string) error {
			f, err := os.Create(path)
			for line := range strings.Lines(text) {
				time.Sleep(2 * time.Millisecond)
				_, failed := f.WriteString(line)
				err = errors.Join(err, failed)
			}
			return errors.Join(err, f.Close())
		},
		"removed first": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte(text), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t, func(c *Config) { c.Settle = 20 * time.Second })
			old := time.Now().Add(-time.Hour)
			d.writeFile("f.yaml", text)
			require.NoError(t, os.Chtimes(filepath.Join(d.path, "f.yaml"), old, old))
			before := d.pods()
			require.Len(t, before, 2)
			d.run()
			for range 10 {
				saved := make(chan error, 1)
				go func() { saved <- save(filepath.Join(d.path, "f.yaml")) }()
				for len(saved) == 0 {
					time.Sleep(time.Millisecond)
					require.Equal(t, before, d.pods())
				}
				require.NoError(t, <-saved)
			}
		})
	}
}

// TestMissingDirectory: a missing directory is an error at first, and later does not remove pods.
func TestMissingDirectory(t *testing.T) {
	d := newDir(t)
	require.NoError(t, os.Remove(d.path))
	_, err := d.source.Pods(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	d.run()
	d.waitUntil(func() bool { return d.hasProblem("no such file") })
	require.NoError(t, os.Mkdir(d.path, 0o755))
	d.writeFile("a.yaml", podYAML("a"))
	d.waitUntil(func() bool {
		pods, err := d.source.Pods(t.Context())
		return err == nil && len(pods) == 1 && len(d.source.Problems()) == 0
	})
	away := d.path + "-away"
	require.NoError(t, os.Rename(d.path, away))
	d.waitUntil(func() bool { return d.hasProblem("no such file") })
	require.Len(t, d.pods(), 1)
	require.NoError(t, os.Rename(away, d.path))
	d.waitUntil(func() bool { return len(d.source.Problems()) == 0 })
	d.writeFile("b.yaml", podYAML("b"))
	d.waitUntil(func() bool { return len(d.pods()) == 2 })
	require.NoError(t, os.RemoveAll(d.path))
	d.waitUntil(func() bool { return d.hasProblem("no such file") })
	require.NoError(t, os.Mkdir(d.path, 0o755))
	d.writeFile("c.yaml", podYAML("c"))
	d.waitUntil(func() bool { return d.pods()["c"] != "" })
}

// TestDuplicateObjects: of two objects with one name that of the first file counts.
func TestDuplicateObjects(t *testing.T) {
	d := newDir(t)
	d.writeFile("b.yaml", podYAML("pod", "{name: b}")+volumeYAML+claimYAML+configYAML+secretYAML)
	d.writeFile("a.yaml", podYAML("pod", "{name: a}")+volumeYAML+claimYAML+configYAML+secretYAML)
	d.writeFile("c.yaml", strings.Replace(podYAML("x"), "{name", "{uid: same, name", 1)+"---\n"+strings.Replace(podYAML("z"), "{name", "{uid: same, name", 1))
	pods, err := d.source.Pods(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 2)
	require.Equal(t, "a", pods[0].Spec.Volumes[0].Name)
	require.Len(t, d.source.Problems(), 6)
	require.True(t, d.hasProblem(`b.yaml, document 1 (Pod/pod): metadata.name: Duplicate value: "default/pod"`))
	require.True(t, d.hasProblem(`c.yaml, document 2 (Pod/z): metadata.uid: Duplicate value: "same"`))
}

// TestUIDOfManifest: the UID of a pod depends on its manifest and the node only.
func TestUIDOfManifest(t *testing.T) {
	uid := func(node types.NodeName, text string) types.UID {
		d := newDir(t, func(c *Config) { c.Node = node })
		d.writeFile("a.yaml", text)
		return d.pods()["p"]
	}
	first := uid("n", podYAML("p"))
	require.Len(t, first, 32)
	require.Equal(t, first, uid("n", "# comment\n"+podYAML("p")))
	require.NotEqual(t, first, uid("other", podYAML("p")))
	require.NotEqual(t, first, uid("n", podYAML("p", "{name: x}")))
	require.Equal(t, types.UID("own"), uid("n", strings.Replace(podYAML("p"), "{name", "{uid: own, name", 1)))
}

// TestVolumeWithoutSource: a volume that has only a name becomes an emptyDir, as by the API
// server; a volume with a source stays unchanged.
func TestVolumeWithoutSource(t *testing.T) {
	sourceOf := func(text string) v1.VolumeSource {
		d := newDir(t)
		d.writeFile("a.yaml", podYAML("p", text))
		pods, err := d.source.Pods(t.Context())
		require.NoError(t, err)
		require.Len(t, pods, 1)
		return pods[0].Spec.Volumes[0].VolumeSource
	}
	empty := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	require.Equal(t, empty, sourceOf("{name: x}"))
	require.Equal(t, empty, sourceOf("{name: x, emptyDir: {}}"))
	require.Nil(t, sourceOf("{name: x, hostPath: {path: /x}}").EmptyDir)
}

// TestClaimBinding: claims are bound as by the control plane.
func TestClaimBinding(t *testing.T) {
	ref := strings.Replace(volumeYAML, "spec: {", "spec: {claimRef: {name: data}, ", 1)
	for name, test := range map[string]struct {
		text  string
		bound bool
	}{
		"by the claim":       {claimYAML + volumeYAML, true},
		"by the volume":      {strings.Replace(claimYAML, "volumeName: disk", "", 1) + ref, true},
		"by both":            {claimYAML + ref, true},
		"with a UID":         {claimYAML + strings.Replace(ref, "name: data", "name: data, uid: u", 1), true},
		"by none":            {strings.Replace(claimYAML, "volumeName: disk", "", 1) + volumeYAML, false},
		"without a volume":   {claimYAML, false},
		"of another":         {claimYAML + strings.Replace(ref, "name: data", "name: other", 1), false},
		"of another, by UID": {strings.Replace(claimYAML, "{name", "{uid: new, name", 1) + strings.Replace(ref, "name: data", "name: data, uid: old", 1), false},
		"lost":               {claimYAML + "status: {phase: Lost}\n" + volumeYAML, false},
	} {
		d := newDir(t)
		d.writeFile("a.yaml", test.text)
		claim, err := d.source.GetPersistentVolumeClaim(t.Context(), "default", "data")
		require.NoError(t, err, name)
		require.Equal(t, test.bound, claim.Status.Phase == v1.ClaimBound, name)
		require.NotEmpty(t, claim.UID, name)
		if test.bound {
			pv, err := d.source.GetPersistentVolume(t.Context(), claim.Spec.VolumeName)
			require.NoError(t, err, name)
			require.Equal(t, claim.UID, pv.Spec.ClaimRef.UID, name)
		}
	}
}

// TestEphemeralClaims: the claim of an ephemeral volume is created from its template.
func TestEphemeralClaims(t *testing.T) {
	d := newDir(t)
	d.writeFile("a.yaml", podYAML("p", "{name: x, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk}}}}")+volumeYAML)
	claim, err := d.source.GetPersistentVolumeClaim(t.Context(), "default", "p-x")
	require.NoError(t, err)
	require.Equal(t, v1.ClaimBound, claim.Status.Phase)
	require.Equal(t, d.pods()["p"], claim.OwnerReferences[0].UID)
}

// TestContentChanges: ConfigMaps and Secrets are returned, and a change reports the pods with them.
func TestContentChanges(t *testing.T) {
	told := make(chan []types.UID, 10)
	d := newDir(t, func(c *Config) { c.ContentChanged = func(pods []types.UID) { told <- pods } })
	d.writeFile("p.yaml", podYAML("p", "{name: x, projected: {sources: [{configMap: {name: conf}}]}}")+"---\n"+
		podYAML("q", "{name: x, secret: {secretName: key}}")+"---\n"+podYAML("r"))
	d.writeFile("c.yaml", configYAML)
	d.writeFile("s.yaml", secretYAML)
	d.run()
	d.waitUntil(func() bool { return len(d.pods()) == 3 })
	config, err := d.source.GetConfigMap(t.Context(), "default", "conf")
	require.NoError(t, err)
	require.Equal(t, "text", config.Data["a.conf"])
	_, err = d.source.GetSecret(t.Context(), "other", "key")
	require.ErrorIs(t, err, fs.ErrNotExist)
	d.writeFile("c.yaml", strings.Replace(configYAML, "text", "new", 1))
	require.Equal(t, []types.UID{d.pods()["p"]}, <-told)
	d.writeFile("s.yaml", strings.Replace(secretYAML, "sesame", "new", 1))
	require.Equal(t, []types.UID{d.pods()["q"]}, <-told)
	d.remove("c.yaml")
	require.Equal(t, []types.UID{d.pods()["p"]}, <-told)
}

// TestInvalidConfigIsRefused: the error of an invalid configuration names the field.
func TestInvalidConfigIsRefused(t *testing.T) {
	_, err := New(t.Context(), Config{})
	require.ErrorContains(t, err, "Config.Dir")
	_, err = New(t.Context(), Config{Dir: "x", Poll: -1})
	require.ErrorContains(t, err, "Poll")
}

// TestMissingObjects: the error of a missing object names its kind and its name, and is that of a missing file.
func TestMissingObjects(t *testing.T) {
	d := newDir(t)
	_, pod := d.source.Pod(t.Context(), "none")
	_, claim := d.source.GetPersistentVolumeClaim(t.Context(), "default", "none")
	for want, err := range map[string]error{`pod "none" not found`: pod, `PersistentVolumeClaim "default/none" not found`: claim} {
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}
