package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/volume"
)

// hostileStrings returns malicious values. None names an entry of the machine; outside is a
// directory that does not belong to the volume.
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

// hostileStringsEverywhere puts each value into each string of a specification. The plugin
// refuses it, with an error that is safe to log, or sets the volume up as one mount or
// directory at its path, tears it down again, and changes nothing else.
func (c *contract) hostileStringsEverywhere() {
	c.makeParents(c.newMounter(c.spec()))
	c.hostileStringsIn(c.Spec, c.sampleRate, c.requireHarmless)
}

// blockHostileStrings is hostileStringsEverywhere for raw devices.
func (c *contract) blockHostileStrings() {
	b := c.block()
	b.mustMap() // creates the directories above
	b.requireGone()
	c.hostileStringsIn(c.BlockSpec, c.sampleRateOfBlock, c.requireHarmlessBlock)
}

func (c *contract) hostileStringsIn(
	newSpec func() *volume.Spec, oneOf func(stringField) int, requireHarmless func(*volume.Spec, string),
) {
	c.Helper()
	outside := c.tempDir()
	precious := filepath.Join(outside, "precious")
	require.NoError(c, os.WriteFile(precious, []byte("precious"), 0o600))
	fields := len(stringsOf(newSpec()))
	require.Positive(c, fields)
	for i, text := range hostileStrings(outside) {
		accepted := newSpec()
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

// sampleRate returns n to try one of n values: real mounts are slow, and specifications have many
// strings besides the volume's own.
func (c *contract) sampleRate(field stringField) int {
	fake := c.fake() != nil
	switch {
	case os.Getenv("VOLUMEKIT_LONG") != "":
		return 1
	case testflag.Short():
		return 16
	case !fake, strings.Contains(field.path, ".ObjectMeta."):
		return 8
	}
	return 1
}

// sampleRateOfBlock is sampleRate for raw devices, which are slower still.
func (c *contract) sampleRateOfBlock(field stringField) int {
	one := c.sampleRate(field)
	if c.fake() == nil && one > 1 {
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

// requireFit verifies that errors are safe to log.
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
		_, _ = mapper.MapPodDevice(c.Context(), volume.BlockVolumePaths{})
		c.blockOf(spec).requireGone()
	}
	c.requirePodsUnchanged(before, what)
	require.Equal(c, copied, spec, "%s: the plugin changed the specification", what)
}

// upAndDownAgain sets a volume up, which may fail, and tears it down.
func (c *contract) upAndDownAgain(mounter volume.Mounter, spec *volume.Spec, what string) {
	c.Helper()
	dir, err := c.podVolumePath(spec)
	require.NoError(c, err, what)
	require.Equal(c, dir, mounter.GetPath(), what)
	if mounter.SetUp(c.Context(), volume.MounterArgs{}) == nil {
		c.requireOnlyUp(dir, what)
		found, err := c.plugin.ConstructVolumeSpec(c.Context(), spec.Name(), dir)
		if err == nil {
			require.Equal(c, spec.Name(), found.Spec.Name(), what)
		}
	}
	unmounter, err := c.plugin.NewUnmounter(spec.Name(), c.pod.UID)
	require.NoError(c, err, what)
	require.NoError(c, unmounter.TearDown(c.Context()), what)
	c.requireDown(dir)
}

// requireOnlyUp verifies the mount at dir. The hostile text may decide whether there is one.
func (c *contract) requireOnlyUp(dir, what string) {
	c.Helper()
	require.DirExists(c, dir, what)
	mounts := c.podMounts()
	require.LessOrEqual(c, len(mounts), 1, what)
	for _, at := range mounts {
		require.Equal(c, tablepath.Of(dir), at.Mountpoint, what)
	}
}

// A stringField is a string in a specification.
type stringField struct {
	path string
	set  func(string)
}

// stringsOf returns all strings of a specification, also unset ones, and a new element of each
// empty list or map. It follows the pointers to structures that are set.
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

// entry adds the keys and values of a map of strings.
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
