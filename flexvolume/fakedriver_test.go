package flexvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const driverName = "example.com/fake"

// A fakeDriver answers calls in this process. Its volumes are directories, by their names.
type fakeDriver struct {
	dir     string // of the volumes
	mounter mount.Interface
	attach  bool // the capability
	lacks   []string
	init    string // the whole answer to init; empty: by attach

	mu       sync.Mutex
	calls    []string // operation and arguments
	attached map[string]bool
	sizes    map[string]int64
	version  version
	missing  error // of inspect
	// before fails a call, or returns an answer, before the call has an effect.
	before func(ctx context.Context, args []string) (answer string, err error)
}

func newFakeDriver(t *testing.T, mounter mount.Interface) *fakeDriver {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return &fakeDriver{dir: dir, mounter: mounter, attached: map[string]bool{}, sizes: map[string]int64{}}
}

// plugin returns a plugin of the driver.
func (d *fakeDriver) plugin(change ...func(*Config)) *Plugin {
	config := Config{Driver: driverName, Dir: "/drivers", Mounter: d.mounter}
	for _, c := range change {
		c(&config)
	}
	p := New(config)
	p.run = d.run
	p.inspect = func(string, string, string) (version, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.version, d.missing
	}
	return p
}

// volume returns a volume in a new directory.
func (d *fakeDriver) volume(t testing.TB) *volume.Spec {
	t.Helper()
	dir, err := os.MkdirTemp(d.dir, "volume")
	require.NoError(t, err)
	return pv(filepath.Base(dir), nil)
}

func pv(name string, options map[string]string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
			FlexVolume: &v1.FlexPersistentVolumeSource{Driver: driverName, Options: options},
		}},
	}, false)
}

// record returns the calls of some operations since the last record, without arguments.
func (d *fakeDriver) record() (operations []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, call := range d.calls {
		operation, _, _ := strings.Cut(call, " ")
		operations = append(operations, operation)
	}
	d.calls = nil
	return operations
}

// hasCalled reports whether the operation is in the record.
func (d *fakeDriver) hasCalled(operation string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.calls, func(call string) bool { return strings.HasPrefix(call, operation+" ") })
}

func (d *fakeDriver) run(ctx context.Context, _ string, args, _ []string) (output programOutput, err error) {
	d.mu.Lock()
	d.calls = append(d.calls, strings.Join(args, " "))
	d.mu.Unlock()
	text := `{"status": "Not supported"}`
	switch {
	case ctx.Err() != nil:
		return output, ctx.Err()
	case d.before != nil:
		var answered string
		if answered, err = d.before(ctx, args); err != nil || answered != "" {
			_, _ = output.stdout.Write([]byte(answered))
			return output, err
		}
	}
	if !slices.Contains(d.lacks, args[0]) {
		text, err = d.answer(ctx, args)
	}
	_, _ = output.stdout.Write([]byte(text))
	return output, err
}

func (d *fakeDriver) answer(ctx context.Context, args []string) (string, error) {
	fields := map[string]any{"status": "Success"}
	var err error
	switch args[0] {
	case "init":
		if d.init != "" {
			return d.init, nil
		}
		fields["capabilities"] = map[string]bool{"attach": d.attach, "supportsMetrics": true}
	case "mount":
		err = d.bind(ctx, args[1], args[2])
	case "mountdevice":
		err = d.bind(ctx, args[1], args[3])
	case "unmount", "unmountdevice":
		err = util.UnmountMountPoint(ctx, d.mounter, args[1], util.KeepDirectory())
	case "attach":
		fields["device"] = "device-of-" + d.set(optionIn(args[1], keyName), args[2], true)
	case "detach":
		d.set(args[1], args[2], false)
	case "isattached":
		d.mu.Lock()
		fields["attached"] = d.attached[optionIn(args[1], keyName)+" "+args[2]]
		d.mu.Unlock()
	case "expandvolume":
		size, _ := strconv.ParseInt(args[3], 10, 64)
		d.mu.Lock()
		name := optionIn(args[1], keyName)
		d.sizes[name] = max(size, d.sizes[name])
		fields["volumeNewSize"] = d.sizes[name]
		d.mu.Unlock()
	case "waitforattach":
		fields["device"] = args[1]
	default:
		return `{"status": "Not supported"}`, nil
	}
	if ctx.Err() != nil { // the process is killed
		return "", ctx.Err()
	}
	if err != nil { // as such, so that tests find the cause
		return "", err
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

func (d *fakeDriver) set(name, node string, attached bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attached[name+" "+node] = attached
	return name
}

func (d *fakeDriver) bind(ctx context.Context, target, options string) error {
	req := mount.Request{Source: filepath.Join(d.dir, optionIn(options, keyName)), Target: target}
	if optionIn(options, keyReadWrite) == "ro" {
		req.Options = []string{"ro"}
	}
	return d.mounter.Mount(ctx, req)
}

// optionIn returns an option in the JSON of a call.
func optionIn(text, key string) string {
	var options map[string]string
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return options[key]
}

type secretFunc func(namespace, name string) (*v1.Secret, error)

func (f secretFunc) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return f(namespace, name)
}
