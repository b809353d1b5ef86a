package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const secretValue = "correct-horse-battery-staple"

// secretNode returns a manager for secrets whose log and events are written to h.
func secretNode(t *testing.T, h *testbed.Buffer) (*manager.Manager, *manager.MemorySource, *volume.Host) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	getter := &content.MapGetter{}
	getter.SetSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password"},
		Data:       map[string][]byte{"password": []byte(secretValue)},
	})
	config := getter.Config()
	config.Mounter = mounttest.NewFake(mount.Config{})
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, content.NewSecret(config))
	require.NoError(t, err)
	source := manager.NewMemorySource()
	m, err := manager.New(manager.Config{
		Plugins: plugins, Mounter: config.Mounter, Pods: source, Claims: source,
		Logger: slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Events: func(e manager.Event) { fmt.Fprintf(h, "%s: %s\n", e.Reason, e.Message) },
	})
	require.NoError(t, err)
	return m, source, host
}

func podWithSecret(uid types.UID, key string) *v1.Pod {
	pod := podWith(uid)
	pod.Spec.Volumes = []v1.Volume{{Name: "v0", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: "password", Items: []v1.KeyToPath{{Key: key, Path: "file"}},
	}}}}
	pod.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v0", MountPath: "/v0"}}}}
	return pod
}

// TestSecretsAreNotDisclosed: the value of a secret is in no log, event or state, and in no file
// outside its volume, also if its set-up fails.
func TestSecretsAreNotDisclosed(t *testing.T) {
	var h testbed.Buffer
	m, source, host := secretNode(t, &h)
	good, bad := podWithSecret("1", "password"), podWithSecret("2", "no-such-key")
	source.SetPod(good, bad)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	require.NoError(t, m.WaitForAttachAndMount(t.Context(), good))
	require.Eventually(t, func() bool { return strings.Contains(h.String(), manager.FailedMount) }, time.Minute, time.Millisecond)
	state, err := json.Marshal(m.State())
	require.NoError(t, err)
	errors := fmt.Sprintf("%#v", m.State())
	at := m.GetMountedVolumesForPod("1")["v0"].Path
	cancel()
	require.NoError(t, <-ended)

	text, err := os.ReadFile(filepath.Join(at, "file"))
	require.NoError(t, err)
	require.Equal(t, secretValue, string(text))
	require.NotContains(t, h.String(), secretValue)
	require.NotContains(t, string(state)+errors, secretValue)
	require.NoError(t, filepath.WalkDir(host.Root(), func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(name, at+"/") {
			return err
		}
		text, err := os.ReadFile(name)
		require.NotContains(t, string(text), secretValue, name)
		return err
	}))
}
