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
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dir is a directory of manifests that a source watches.
type dir struct {
	*testing.T
	path   string
	source *Source
}

func newDir(t *testing.T, change ...func(*Config)) *dir {
	t.Helper()
	d := &dir{T: t, path: t.TempDir()}
	config := Config{Dir: d.path, Node: "node-1", Settle: 20 * time.Millisecond, Poll: 20 * time.Millisecond}
	for _, change := range change {
		change(&config)
	}
	var err error
	d.source, err = New(config)
	require.NoError(t, err)
	return d
}

// run runs the source until the test ends.
func (d *dir) run() {
	ctx, cancel := context.WithCancel(d.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.source.Run(ctx) }()
	d.Cleanup(func() {
		cancel()
		require.ErrorIs(d, <-ended, context.Canceled)
	})
}

// put writes a file as editors do.
func (d *dir) put(name, text string) {
	d.Helper()
	tmp := filepath.Join(d.path, ".tmp-"+name)
	require.NoError(d, os.WriteFile(tmp, []byte(text), 0o600))
	require.NoError(d, os.Rename(tmp, filepath.Join(d.path, name)))
}

func (d *dir) remove(name string) { require.NoError(d, os.Remove(filepath.Join(d.path, name))) }

// pods returns names and UIDs.
func (d *dir) pods() map[string]types.UID {
	d.Helper()
	pods, err := d.source.Pods(d.Context())
	require.NoError(d, err)
	all := map[string]types.UID{}
	for _, pod := range pods {
		all[pod.Name] = pod.UID
	}
	return all
}

func (d *dir) eventually(is func() bool) {
	d.Helper()
	require.Eventually(d, is, time.Minute, 5*time.Millisecond)
}

func (d *dir) says(part string) bool {
	for _, p := range d.source.Problems() {
		if strings.Contains(p.Error(), part) {
			return true
		}
	}
	return false
}

func unsupported(context.Context, string, func()) error { return errors.ErrUnsupported }

// TestFiles: files come, change and go, with the kernel's word for it and without.
func TestFiles(t *testing.T) {
	for name, watch := range map[string]func(context.Context, string, func()) error{"watched": watch, "polled": unsupported} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			d.source.watch = watch
			d.run()
			require.Empty(t, d.pods())
			d.put("a.yaml", podYAML("a", "{name: x}"))
			d.put("b.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}}`)
			d.put("ignored.txt", podYAML("c"))
			d.eventually(func() bool { return len(d.pods()) == 2 })
			before := d.pods()
			d.put("a.yaml", podYAML("a", "{name: z}"))
			d.eventually(func() bool { return d.pods()["a"] != before["a"] })
			require.Equal(t, before["b"], d.pods()["b"])
			d.put("a.yaml", "# Moved, and back as it was.\n"+podYAML("a", "{name: x}"))
			d.eventually(func() bool { return d.pods()["a"] == before["a"] })
			d.remove("b.json")
			d.eventually(func() bool { return len(d.pods()) == 1 })
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestChanged: who waits for the channel learns of each change.
func TestChanged(t *testing.T) {
	d := newDir(t)
	d.run()
	for i := range 5 {
		d.put("a.yaml", podYAML(fmt.Sprint("pod-", i)))
		for d.pods()[fmt.Sprint("pod-", i)] == "" {
			select {
			case <-d.source.Changed():
			case <-time.After(time.Minute):
				t.Fatal("nobody told of a change")
			}
		}
	}
}

// TestBroken: a file that is broken counts as it was, and says what is wrong with it.
func TestBroken(t *testing.T) {
	for name, test := range badManifests {
		if name == "too much data" || name == "too many" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDir(t)
			d.put("f.yaml", podYAML("good")+secretYAML)
			d.put("other.yaml", podYAML("other"))
			before := d.pods()
			require.Len(t, before, 2)
			d.run()
			d.put("f.yaml", test.text)
			d.eventually(func() bool { return d.says(test.says) })
			require.Equal(t, before, d.pods())
			d.put("f.yaml", podYAML("good")+secretYAML)
			d.eventually(func() bool { return len(d.source.Problems()) == 0 })
			require.Equal(t, before, d.pods())
		})
	}
}

// TestUnreadable: so does one that is too large, no file, or gone behind a link.
func TestUnreadable(t *testing.T) {
	link := func(to string) func(string) error {
		return func(path string) error {
			return errors.Join(os.Symlink(to, path+".tmp"), os.Rename(path+".tmp", path))
		}
	}
	for says, replace := range map[string]func(path string) error{
		"f.yaml: a file has at most":       func(path string) error { return os.Truncate(path, maxFile+1) },
		"f.yaml: not a regular file":       link("."),
		"f.yaml: stat ":                    link("nowhere"),
		"f.yaml: the file holds no object": func(path string) error { return os.Truncate(path, 0) },
	} {
		d := newDir(t)
		d.put("f.yaml", podYAML("good"))
		before := d.pods()
		require.Len(t, before, 1)
		d.run()
		require.NoError(t, replace(filepath.Join(d.path, "f.yaml")))
		d.eventually(func() bool { return d.says(says) })
		require.Equal(t, before, d.pods())
		d.put("f.yaml", podYAML("good"))
		d.eventually(func() bool { return len(d.source.Problems()) == 0 })
		require.Equal(t, before, d.pods())
	}
}

// TestKeep: what was last in order is known after a restart.
func TestKeep(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "keep")
	d := newDir(t, func(c *Config) { c.Keep = keep })
	d.put("f.yaml", podYAML("good"))
	d.put("g.yaml", podYAML("gone"))
	before := d.pods()
	require.Len(t, before, 2)
	d.put("f.yaml", podYAML("good")[:60])
	d.remove("g.yaml")

	again := newDir(t, func(c *Config) { c.Dir, c.Keep = d.path, keep })
	require.Equal(t, map[string]types.UID{"good": before["good"]}, again.pods())
	require.True(t, again.says("f.yaml"))
	names, err := os.ReadDir(keep)
	require.NoError(t, err)
	require.Len(t, names, 1)
	info, err := os.Stat(keep)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)

	forgetful := newDir(t, func(c *Config) { c.Dir = d.path })
	require.Empty(t, forgetful.pods())
}

// TestEditors: whichever way a file is saved, its pod is never gone.
func TestEditors(t *testing.T) {
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
			d.put("f.yaml", text)
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

// TestDirectory: one that is missing is an error at first, and no reason to let go of
// anything later.
func TestDirectory(t *testing.T) {
	d := newDir(t)
	require.NoError(t, os.Remove(d.path))
	_, err := d.source.Pods(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	d.run()
	d.eventually(func() bool { return d.says("no such file") })
	require.NoError(t, os.Mkdir(d.path, 0o755))
	d.put("a.yaml", podYAML("a"))
	d.eventually(func() bool {
		pods, err := d.source.Pods(t.Context())
		return err == nil && len(pods) == 1 && len(d.source.Problems()) == 0
	})
	away := d.path + "-away"
	require.NoError(t, os.Rename(d.path, away))
	d.eventually(func() bool { return d.says("no such file") })
	require.Len(t, d.pods(), 1)
	require.NoError(t, os.Rename(away, d.path))
	d.eventually(func() bool { return len(d.source.Problems()) == 0 })
	d.put("b.yaml", podYAML("b"))
	d.eventually(func() bool { return len(d.pods()) == 2 })
	require.NoError(t, os.RemoveAll(d.path))
	d.eventually(func() bool { return d.says("no such file") })
	require.NoError(t, os.Mkdir(d.path, 0o755))
	d.put("c.yaml", podYAML("c"))
	d.eventually(func() bool { return d.pods()["c"] != "" })
}

// TestTwice: of two of one name the first file's counts.
func TestTwice(t *testing.T) {
	d := newDir(t)
	d.put("b.yaml", podYAML("pod", "{name: b}")+volumeYAML+claimYAML+configYAML+secretYAML)
	d.put("a.yaml", podYAML("pod", "{name: a}")+volumeYAML+claimYAML+configYAML+secretYAML)
	d.put("c.yaml", strings.Replace(podYAML("x"), "{name", "{uid: same, name", 1)+"---\n"+strings.Replace(podYAML("z"), "{name", "{uid: same, name", 1))
	pods, err := d.source.Pods(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 2)
	require.Equal(t, "a", pods[0].Spec.Volumes[0].Name)
	require.Len(t, d.source.Problems(), 6)
	require.True(t, d.says(`b.yaml, document 1 (Pod/pod): metadata.name: Duplicate value: "default/pod"`))
	require.True(t, d.says(`c.yaml, document 2 (Pod/z): metadata.uid: Duplicate value: "same"`))
}

func TestUID(t *testing.T) {
	uid := func(node types.NodeName, text string) types.UID {
		d := newDir(t, func(c *Config) { c.Node = node })
		d.put("a.yaml", text)
		return d.pods()["p"]
	}
	first := uid("n", podYAML("p"))
	require.Len(t, first, 32)
	require.Equal(t, first, uid("n", "# comment\n"+podYAML("p")))
	require.NotEqual(t, first, uid("other", podYAML("p")))
	require.NotEqual(t, first, uid("n", podYAML("p", "{name: x}")))
	require.Equal(t, types.UID("own"), uid("n", strings.Replace(podYAML("p"), "{name", "{uid: own, name", 1)))
}

// TestVolumeOfNoSource: a volume of which no more than its name is said is an emptyDir, as
// the API server has it; one of which more is said stays what it is.
func TestVolumeOfNoSource(t *testing.T) {
	sourceOf := func(text string) v1.VolumeSource {
		d := newDir(t)
		d.put("a.yaml", podYAML("p", text))
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

// TestClaims: claims are bound as the control plane would.
func TestClaims(t *testing.T) {
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
		d.put("a.yaml", test.text)
		claim, err := d.source.PersistentVolumeClaim(t.Context(), "default", "data")
		require.NoError(t, err, name)
		require.Equal(t, test.bound, claim.Status.Phase == v1.ClaimBound, name)
		require.NotEmpty(t, claim.UID, name)
		if test.bound {
			pv, err := d.source.PersistentVolume(t.Context(), claim.Spec.VolumeName)
			require.NoError(t, err, name)
			require.Equal(t, claim.UID, pv.Spec.ClaimRef.UID, name)
		}
	}
}

func TestEphemeral(t *testing.T) {
	d := newDir(t)
	d.put("a.yaml", podYAML("p", "{name: x, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk}}}}")+volumeYAML)
	claim, err := d.source.PersistentVolumeClaim(t.Context(), "default", "p-x")
	require.NoError(t, err)
	require.Equal(t, v1.ClaimBound, claim.Status.Phase)
	require.Equal(t, d.pods()["p"], claim.OwnerReferences[0].UID)
}

// TestContent: content has its getters, and a change names the pods that show it.
func TestContent(t *testing.T) {
	told := make(chan []types.UID, 10)
	d := newDir(t, func(c *Config) { c.ContentChanged = func(pods []types.UID) { told <- pods } })
	d.put("p.yaml", podYAML("p", "{name: x, projected: {sources: [{configMap: {name: conf}}]}}")+"---\n"+
		podYAML("q", "{name: x, secret: {secretName: key}}")+"---\n"+podYAML("r"))
	d.put("c.yaml", configYAML)
	d.put("s.yaml", secretYAML)
	d.run()
	d.eventually(func() bool { return len(d.pods()) == 3 })
	config, err := d.source.GetConfigMap(t.Context(), "default", "conf")
	require.NoError(t, err)
	require.Equal(t, "text", config.Data["a.conf"])
	_, err = d.source.GetSecret(t.Context(), "other", "key")
	require.ErrorIs(t, err, fs.ErrNotExist)
	d.put("c.yaml", strings.Replace(configYAML, "text", "new", 1))
	require.Equal(t, []types.UID{d.pods()["p"]}, <-told)
	d.put("s.yaml", strings.Replace(secretYAML, "sesame", "new", 1))
	require.Equal(t, []types.UID{d.pods()["q"]}, <-told)
	d.remove("c.yaml")
	require.Equal(t, []types.UID{d.pods()["p"]}, <-told)
}

func TestConfig(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.Dir")
	_, err = New(Config{Dir: "x", Poll: -1})
	require.ErrorContains(t, err, "Poll")
}
