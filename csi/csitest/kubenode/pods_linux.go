package kubenode

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/mount"
)

// CreateWriter creates a pod with a container that writes a file, named like the pod, to the volume of a
// claim.
func (n *Node) CreateWriter(name, claim string) *v1.Pod {
	n.Helper()
	return n.CreatePod(n.NewPod(name, v1.Container{
		Command:      []string{"/busybox", "sh", "-c", "echo written > /data/" + name + "; exec /busybox sleep 86400"},
		Env:          []v1.EnvVar{{Name: podVariable, Value: name}},
		VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}))
}

// RunningWriter waits until the container of a pod runs, and has written its file.
func (n *Node) RunningWriter(name, claim string) (pod *v1.Pod) {
	n.Helper()
	pod = n.RunningPod(name)
	n.Await(name+" has written", func() bool {
		text, err := os.ReadFile(filepath.Join(n.VolumeDir(pod, claim), name))
		return err == nil && string(text) == "written\n"
	})
	return pod
}

// VolumeDir returns the path at which a pod has the volume of a claim.
func (n *Node) VolumeDir(pod *v1.Pod, claim string) string {
	return filepath.Join(n.PodDir(pod), "volumes/kubernetes.io~csi", claim, "mount")
}

// RequirePublished requires that mounts are those of one volume for some pods, and further ones.
func (n *Node) RequirePublished(mounts map[string]mount.Info, further int, claim string, pods ...*v1.Pod) {
	n.Helper()
	for _, pod := range pods {
		require.Contains(n, mounts, n.VolumeDir(pod, claim))
	}
	require.Len(n, mounts, further+len(pods), "%v", mounts)
	require.Len(n, n.Staged(), 1)
}

// RequireMeasured waits until the kubelet reports the statistics of a pod's volume.
func (n *Node) RequireMeasured(pod *v1.Pod) {
	n.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	n.Await("statistics of the volume", func() bool {
		response, err := client.Get(fmt.Sprintf("https://%s:10250/stats/summary", n.Address))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var summary struct {
			Pods []struct {
				PodRef struct{ Name string }
				Volume []struct {
					Name          string
					CapacityBytes uint64
				}
			}
		}
		if err := json.NewDecoder(response.Body).Decode(&summary); err != nil {
			return false
		}
		for _, p := range summary.Pods {
			for _, v := range p.Volume {
				if p.PodRef.Name == pod.Name && v.Name == "data" && v.CapacityBytes > 0 {
					return true
				}
			}
		}
		return false
	})
}
