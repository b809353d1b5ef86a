package kubenode

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podVariable names the pod in the environment of its container.
const podVariable = "VOLUMEKIT_POD"

// A process is a process of the namespace of kubeserver.Isolate.
type process struct{ id, parent int }

// processes returns the processes whose environment has a variable; all if it is empty.
func processes(variable string) (found []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		stat, err := os.ReadFile(file)
		environment, unread := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if err != nil || unread != nil { // ended meanwhile
			continue
		}
		// The name in parentheses may contain any character.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" || variable != "" && !bytes.Contains(environment, []byte(variable+"\x00")) {
			continue
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // digits
		parent, _ := strconv.Atoi(fields[1])
		found = append(found, process{id, parent})
	}
	return found
}

// container returns the process of a pod's container.
func (n *Node) container(pod *v1.Pod) process {
	n.Helper()
	found := processes(podVariable + "=" + pod.Name)
	require.Len(n, found, 1)
	return found[0]
}

// KillContainer kills the process of a pod's container.
func (n *Node) KillContainer(pod *v1.Pod) {
	n.Helper()
	require.NoError(n, syscall.Kill(n.container(pod).id, syscall.SIGKILL))
}

// KillSandbox kills the process of a pod's sandbox: the other child of the shim that has the container's.
func (n *Node) KillSandbox(pod *v1.Pod) {
	n.Helper()
	container := n.container(pod)
	killed := 0
	for _, p := range processes("") {
		if p.parent == container.parent && p.id != container.id {
			require.NoError(n, syscall.Kill(p.id, syscall.SIGKILL))
			killed++
		}
	}
	require.Equal(n, 1, killed, "sandboxes")
}

// RestartedWriter waits until the container of a pod runs again, and has written its file, which the test
// has removed.
func (n *Node) RestartedWriter(pod *v1.Pod, claim string) {
	n.Helper()
	before := pod.Status.ContainerStatuses[0].ContainerID
	n.Await(pod.Name+" is restarted", func() bool {
		now, err := n.Pods.Get(n.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && len(now.Status.ContainerStatuses) == 1 && now.Status.ContainerStatuses[0].ContainerID != before
	})
	n.RunningWriter(pod.Name, claim)
}

// RemoveFile removes the file that a pod has written.
func (n *Node) RemoveFile(pod *v1.Pod, claim string) {
	n.Helper()
	require.NoError(n, os.Remove(filepath.Join(n.VolumeDir(pod, claim), pod.Name)))
}
