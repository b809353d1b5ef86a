package manager_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// logs has the node's managers write a log, and returns how to read it: the lines of a
// message. That is to be done while none runs.
func (n *node) logs() func(message string) []map[string]any {
	var b bytes.Buffer
	n.config.Logger = slog.New(slog.NewJSONHandler(&b, nil))
	return func(message string) (lines []map[string]any) {
		for _, text := range bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n")) {
			var line map[string]any
			require.NoError(n, json.Unmarshal(text, &line), "%s", text)
			if line["msg"] == message {
				lines = append(lines, line)
			}
		}
		return lines
	}
}

// TestLog: what is done, and what fails, is in the log with its volume and its pod.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		logs := n.logs()
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck"), Times: 1})
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		unique := string(m.GetMountedVolumesForPod("1")["v0"].Unique)
		n.source.SetPod(podWith("2", "missing"))
		time.Sleep(time.Minute)
		stop()
		failed, done, cannot := logs("operation failed"), logs("operation done"), logs("volume cannot be set up")
		require.Len(t, failed, 1)
		require.Len(t, done, 1)
		require.Len(t, cannot, 1)
		for _, line := range append(failed, done...) {
			require.Equal(t, "set up", line["operation"])
			require.Equal(t, unique, line["volume"])
			require.Equal(t, "1", line["pod"])
			require.Equal(t, "default/pod", line["name"])
			require.Equal(t, n.plugin.GetPluginName(), line["plugin"])
		}
		require.Contains(t, failed[0]["err"], "no luck")
		require.Equal(t, "2", cannot[0]["pod"])
		require.Equal(t, "default/pod", cannot[0]["name"])
		require.Equal(t, "v0", cannot[0]["volume"])
		require.NotContains(t, failed[0], "stack")
	})
}

type panickingPlugin struct{ *volumetest.FakePlugin }

func (p panickingPlugin) Unwrap() volume.VolumePlugin { return nil }

func (p panickingPlugin) NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error) {
	panic("in the midst of it")
}

// TestLogOfPanic: it says where in the plugin that was.
func TestLogOfPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		logs := n.logs()
		n.claim("a")
		plugins, err := volume.NewVolumePluginMgr(n.host, panickingPlugin{n.plugin})
		require.NoError(t, err)
		n.config.Plugins = plugins
		_, stop := n.run()
		n.source.SetPod(podWith("1", "a"))
		time.Sleep(time.Second)
		stop()
		require.Contains(t, logs("operation failed")[0]["stack"], "panickingPlugin.NewMounter")
		require.NotContains(t, n.events[0].Message, "panickingPlugin")
	})
}
