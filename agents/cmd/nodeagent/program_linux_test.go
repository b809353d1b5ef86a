package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubeAgent runs the program on a real API server, with real mounts: it sets up the volumes of
// the pods of its node, follows a ConfigMap, writes events, leaves the volumes at its end, and tears
// down those of a deleted pod in the next run.
func TestKubeAgent(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	c := newCluster(t)
	c.createPods()
	root := filepath.Join(c.disks, "root")
	args := []string{"-kubeconfig", c.account.Kubeconfig(), "-node", nodeName, "-root", root, "-disks", c.disks, "-register"}
	start := func() (out *output, stop func() int) {
		ctx, cancel := context.WithCancel(t.Context())
		out = &output{}
		ended := make(chan int, 1)
		go func() { ended <- run(ctx, args, out, out) }()
		return out, func() int {
			cancel()
			return <-ended
		}
	}
	says := func(out *output, pattern string) {
		t.Helper()
		require.Eventually(t, func() bool { return regexp.MustCompile(pattern).MatchString(out.String()) },
			time.Minute, 10*time.Millisecond, "%q in %v", pattern, out)
	}

	out, stop := start()
	says(out, `FailedMount default/broken: .*configMap default/missing not found`)
	require.Eventually(t, func() bool {
		events, err := c.Admin.CoreV1().Events(v1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=broken"})
		return err == nil && slices.ContainsFunc(events.Items, func(e v1.Event) bool { return e.Reason == "FailedMount" && e.Source.Host == nodeName })
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, c.Create(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "missing"}}))
	says(out, "All is as desired: 6 volumes of 2 pods are up.")

	web, err := c.Admin.CoreV1().Pods(v1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	volumes := filepath.Join(root, "pods", string(web.UID), "volumes")
	isMounted, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), filepath.Join(volumes, "kubernetes.io~local-volume", "web"))
	require.NoError(t, err)
	require.True(t, isMounted)
	token, err := os.ReadFile(filepath.Join(volumes, "kubernetes.io~projected", "v4", "token"))
	require.NoError(t, err)
	require.NotEmpty(t, token)
	color := filepath.Join(volumes, "kubernetes.io~configmap", "v1", "color")
	settings, err := c.Admin.CoreV1().ConfigMaps(v1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	settings.Data["color"] = "green"
	_, err = c.Admin.CoreV1().ConfigMaps(v1.NamespaceDefault).Update(t.Context(), settings, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(color)
		return err == nil && string(text) == "green"
	}, time.Minute, 10*time.Millisecond)
	require.Zero(t, stop(), out.String())
	require.FileExists(t, color)

	require.NoError(t, c.Admin.CoreV1().Pods(v1.NamespaceDefault).Delete(t.Context(), "web", *metav1.NewDeleteOptions(0)))
	out, stop = start()
	says(out, "All is as desired: 1 volume of 1 pod is up.")
	require.NoDirExists(t, filepath.Join(root, "pods", string(web.UID)))
	require.Zero(t, stop(), out.String())
}
