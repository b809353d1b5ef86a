package volumetest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// hostileStrings are what somebody may write who wishes us no good. None is the name of
// anything on the machine; outside is a directory that is not the volume's.
func hostileStrings(outside string) []string {
	return []string{
		"", " ", ".", "..", "/", "//", "/..", "../../../../nonexistent", "nonexistent/../../x", "/nonexistent/../x",
		outside, outside + "/", outside + "/../x",
		"a\x00b", "a\nb", "a\tb", "a b", "\xff\xfe", "\u202egnp", "\u2028", "é", "~root", "~",
		"-o", "--help", "-", "a,bind,dev,suid", "rw,exec", "x=y", "uid=0", "remount", "bind", "@",
		"$(touch nonexistent)", "`id`", "${HOME}", "; id", "| id", "%s%n%d", `\`, `"`, "'",
		"a:b", ":", "[::1]", "[", "0", "-1", "1e99", "1e999999999", "null", "{}", "<x>",
		strings.Repeat("a", 256), strings.Repeat("a", 1<<16), strings.Repeat("../", 100) + "x",
	}
}

// hostileStringsEverywhere puts each into each string of a specification. It is refused,
// with an error that is fit for a log, or it does no harm: one mount, or directory, where
// the volume is to be, that goes again, and nothing anywhere else.
func (c *contract) hostileStringsEverywhere() {
	c.makeParents(c.newMounter(c.spec()))
	c.hostileStringsIn(c.Spec, c.oneOf, c.requireHarmless)
}

// blockHostileStrings is hostileStringsEverywhere for raw devices.
func (c *contract) blockHostileStrings() {
	b := c.block()
	b.mapped() // makes the directories above
	b.gone()
	c.hostileStringsIn(c.BlockSpec, c.oneOfBlock, c.requireHarmlessBlock)
}

func (c *contract) hostileStringsIn(
	newSpec func(*testing.T) *volume.Spec, oneOf func(stringField) int, requireHarmless func(*volume.Spec, string),
) {
	c.Helper()
	outside := c.dir()
	precious := filepath.Join(outside, "precious")
	require.NoError(c, os.WriteFile(precious, []byte("precious"), 0o600))
	fields := len(stringsOf(newSpec(c.T)))
	require.Positive(c, fields)
	for i, text := range hostileStrings(outside) {
		accepted := newSpec(c.T)
		for n := range fields {
			spec := copyOf(accepted)
			field := stringsOf(spec)[n]
			if (i+n)%oneOf(field) != 0 {
				continue
			}
			field.set(text)
			requireHarmless(spec, fmt.Sprintf("%s is %.40q (%d)", field.path, text, i))
		}
		data, err := os.ReadFile(precious)
		require.NoError(c, err)
		require.Equal(c, "precious", string(data))
	}
	entries, err := os.ReadDir(outside)
	require.NoError(c, err)
	require.Len(c, entries, 1, "something was made in a directory that is not the volume's")
}

// oneOf says to try one of how many: mounting for real takes its time, and what is not
// about the volume itself is there in great number.
func (c *contract) oneOf(field stringField) int {
	_, fake := c.mounter.(*mounttest.Fake)
	switch {
	case os.Getenv("VOLUMEKIT_LONG") != "":
		return 1
	case testing.Short():
		return 16
	case !fake, strings.Contains(field.path, ".ObjectMeta."):
		return 8
	}
	return 1
}

// oneOfBlock is oneOf for raw devices: a real one takes longer still.
func (c *contract) oneOfBlock(field stringField) int {
	one := c.oneOf(field)
	if _, fake := c.mounter.(*mounttest.Fake); !fake && one > 1 {
		return 8 * one
	}
	return one
}

func (c *contract) requireHarmless(spec *volume.Spec, what string) {
	c.Helper()
	before, copied := c.podState(), copyOf(spec)
	_ = c.plugin.CanSupport(spec)
	_, nameErr := c.plugin.GetVolumeName(spec)
	mounter, err := c.plugin.NewMounter(spec, c.pod)
	c.requireFit(what, nameErr, err)
	if err == nil {
		c.upAndDownAgain(mounter, spec, what)
	}
	c.requirePodsUnchanged(before, what)
	require.Equal(c, copied, spec, "%s: the plugin changed the specification", what)
}

// requireFit: errors are fit for a log.
func (c *contract) requireFit(what string, errs ...error) {
	c.Helper()
	for _, err := range errs {
		if err != nil {
			require.Less(c, len(err.Error()), 2048, "%s: hostile text fills the log", what)
			require.False(c, strings.ContainsAny(err.Error(), "\x00\n"), "%s: hostile text in the log: %q", what, err)
		}
	}
}

func (c *contract) requireHarmlessBlock(spec *volume.Spec, what string) {
	c.Helper()
	before, copied := c.podState(), copyOf(spec)
	mapper, err := c.blockPlugin(c.plugin).NewBlockVolumeMapper(spec, c.pod)
	c.requireFit(what, err)
	if err == nil {
		_, _ = mapper.MapPodDevice(c.Context())
		block{c, spec, c.pod}.gone()
	}
	c.requirePodsUnchanged(before, what)
	require.Equal(c, copied, spec, "%s: the plugin changed the specification", what)
	require.False(c, c.Failed(), what)
}

// upAndDownAgain sets up what may or may not be possible to set up.
func (c *contract) upAndDownAgain(mounter volume.Mounter, spec *volume.Spec, what string) {
	c.Helper()
	dir, err := c.host.PodVolumeDir(c.pod.UID, c.plugin.GetPluginName(), spec.Name())
	require.NoError(c, err, what)
	require.Equal(c, dir, mounter.GetPath(), what)
	if mounter.SetUp(c.Context(), volume.MounterArgs{}) == nil {
		c.requireOnlyUp(dir, what)
		found, err := c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), dir)
		if err == nil {
			require.Equal(c, spec.Name(), found.Name(), what)
		}
	}
	unmounter, err := c.plugin.NewUnmounter(spec.Name(), c.pod.UID)
	require.NoError(c, err, what)
	require.NoError(c, unmounter.TearDown(c.Context()), what)
	c.requireDown(dir)
	require.False(c, c.Failed(), what)
}

// requireOnlyUp: the text may be what says whether the volume is a mount.
func (c *contract) requireOnlyUp(dir, what string) {
	c.Helper()
	require.DirExists(c, dir, what)
	mounts := c.podMounts()
	require.LessOrEqual(c, len(mounts), 1, what)
	for _, at := range mounts {
		require.Equal(c, tablePath(dir), at.Mountpoint, what)
	}
}

// A stringField is a string somewhere in a specification.
type stringField struct {
	path string
	set  func(string)
}

// stringsOf returns all strings of a specification: also those that are not set, and of
// a list or a map that is empty one more. Of structures those that are there.
func stringsOf(spec *volume.Spec) []stringField {
	var w stringWalk
	if spec.Volume != nil {
		w.walk("volume", reflect.ValueOf(spec.Volume).Elem())
	}
	if spec.PersistentVolume != nil {
		w.walk("persistentVolume", reflect.ValueOf(spec.PersistentVolume).Elem())
	}
	return w.found
}

type stringWalk struct{ found []stringField }

func (w *stringWalk) add(path string, set func(string)) {
	w.found = append(w.found, stringField{path, set})
}

func (w *stringWalk) walk(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		w.add(path, v.SetString)
	case reflect.Pointer:
		w.pointer(path, v)
	case reflect.Struct:
		if _, isTime := v.Addr().Interface().(interface{ IsZero() bool }); isTime && hasTime(v) {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				w.walk(path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		w.slice(path, v)
	case reflect.Map:
		w.entry(path, v)
	}
}

func hasTime(v reflect.Value) bool {
	return v.NumField() > 0 && v.Type().Field(0).Type == reflect.TypeFor[time.Time]()
}

func (w *stringWalk) pointer(path string, v reflect.Value) {
	switch {
	case !v.IsNil():
		w.walk(path, v.Elem())
	case v.Type().Elem().Kind() == reflect.String:
		w.add(path, func(text string) {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().SetString(text)
		})
	}
}

func (w *stringWalk) slice(path string, v reflect.Value) {
	for i := range v.Len() {
		w.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
	if v.Type().Elem().Kind() == reflect.String {
		w.add(path+"[+]", func(text string) {
			one := reflect.New(v.Type().Elem()).Elem()
			one.SetString(text)
			v.Set(reflect.Append(v, one))
		})
	}
}

// entry is for maps of strings.
func (w *stringWalk) entry(path string, v reflect.Value) {
	of := v.Type()
	if of.Key().Kind() != reflect.String || of.Elem().Kind() != reflect.String {
		return
	}
	put := func(key, value string) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(of))
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(of.Key()), reflect.ValueOf(value).Convert(of.Elem()))
	}
	w.add(path+"{key}", func(text string) { put(text, "x") })
	w.add(path+"{value}", func(text string) { put("x", text) })
	for _, key := range v.MapKeys() {
		w.add(path+"{"+key.String()+"}", func(text string) { put(key.String(), text) })
	}
}
