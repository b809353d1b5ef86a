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

// logs makes the node's managers write a log, and returns a function that returns the lines of a
// message. It must not be called while a manager runs.
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

// TestLogOfOperations: the log has finished and failed operations with their volume and pod.
func TestLogOfOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
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

// TestLogOfPanic: the log of a panic has the stack, with the place in the plugin.
func TestLogOfPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		logs := n.logs()
		n.claim("a")
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, panickingPlugin{n.plugin})
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
