package contract

import (
	"strings"

	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *contract) newPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: c.meta(name), Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "image"}}}}
}

// createScheduled creates a pod that is assigned to a node.
func (c *contract) createScheduled(name string) *v1.Pod {
	pod := c.newPod(name)
	pod.Spec.NodeName = c.namespace + "-node"
	return create(c, c.pods(), pod)
}

func (c *contract) deletePod(name string, options metav1.DeleteOptions) {
	c.Helper()
	require.NoError(c, c.pods().Delete(c.ctx, name, options))
}

func (c *contract) getPod(name string) *v1.Pod {
	c.Helper()
	pod, err := c.pods().Get(c.ctx, name, metav1.GetOptions{})
	require.NoError(c, err)
	return pod
}

func (c *contract) podMissing(name string) {
	c.Helper()
	_, err := c.pods().Get(c.ctx, name, metav1.GetOptions{})
	c.refused(err, metav1.StatusReasonNotFound)
}

var podTests = map[string]func(*contract){
	"PodDefaults": func(c *contract) {
		pod := c.newPod("a")
		pod.Status.Phase = v1.PodRunning
		pod.Spec.Volumes = []v1.Volume{{Name: "none"}, {Name: "config", VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "x"}}}}}
		created := create(c, c.pods(), pod)
		require.Equal(c, v1.PodPending, created.Status.Phase)
		require.Equal(c, v1.PodQOSBestEffort, created.Status.QOSClass)
		require.Equal(c, v1.RestartPolicyAlways, created.Spec.RestartPolicy)
		require.Equal(c, pointer(int64(30)), created.Spec.TerminationGracePeriodSeconds)
		require.NotNil(c, created.Spec.SecurityContext)
		require.Equal(c, int64(1), created.Generation)
		require.NotNil(c, created.Spec.Volumes[0].EmptyDir)
		require.Equal(c, pointer(int32(0o644)), created.Spec.Volumes[1].ConfigMap.DefaultMode)
		require.Equal(c, pointer(int32(0)), created.Spec.Priority)
	},
	"InvalidPods": func(c *contract) {
		for name, breaks := range map[string]func(*v1.Pod){
			"no container":      func(pod *v1.Pod) { pod.Spec.Containers = nil },
			"no image":          func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "" },
			"duplicate volumes": func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{{Name: "v"}, {Name: "v"}} },
			"long claim of an ephemeral volume": func(pod *v1.Pod) {
				pod.Name = strings.Repeat("p", 252)
				pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
					VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: c.newClaim("a").Spec},
				}}}}
			},
			"missing volume": func(pod *v1.Pod) {
				pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			},
		} {
			pod := c.newPod("a")
			breaks(pod)
			_, err := c.pods().Create(c.ctx, pod, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"PodSpecIsImmutable": func(c *contract) {
		created := create(c, c.pods(), c.newPod("a"))
		for name, change := range map[string]func(*v1.Pod){
			"node":    func(pod *v1.Pod) { pod.Spec.NodeName = "node" },
			"volumes": func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{{Name: "v"}} },
			"command": func(pod *v1.Pod) { pod.Spec.Containers[0].Command = []string{"x"} },
			"restart": func(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyNever },
		} {
			pod := created.DeepCopy()
			change(pod)
			_, err := c.pods().Update(c.ctx, pod, metav1.UpdateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"PodImageMayChange": func(c *contract) {
		pod := create(c, c.pods(), c.newPod("a"))
		pod.Spec.Containers[0].Image = "other"
		updated := update(c, c.pods(), pod)
		require.Equal(c, "other", updated.Spec.Containers[0].Image)
		require.Equal(c, int64(2), updated.Generation)
	},
	"PodStatusKeepsGeneration": func(c *contract) {
		pod := create(c, c.pods(), c.newPod("a"))
		pod.Status.Phase = v1.PodRunning
		updated := updateStatus(c, c.pods(), pod)
		require.Equal(c, v1.PodRunning, updated.Status.Phase)
		require.Equal(c, int64(1), updated.Generation)
		require.Equal(c, v1.PodQOSBestEffort, updated.Status.QOSClass)
	},
	"UnscheduledPodIsDeletedAtOnce": func(c *contract) {
		create(c, c.pods(), c.newPod("a"))
		c.deletePod("a", metav1.DeleteOptions{})
		c.podMissing("a")
	},
	"ScheduledPodIsDeletedGracefully": func(c *contract) {
		created := c.createScheduled("a")
		c.deletePod("a", metav1.DeleteOptions{})
		pod := c.getPod("a")
		require.Equal(c, pointer(int64(30)), pod.DeletionGracePeriodSeconds)
		require.Less(c, created.CreationTimestamp.Unix()+29, pod.DeletionTimestamp.Unix())
		require.Equal(c, int64(2), pod.Generation)
		c.deletePod("a", metav1.DeleteOptions{})
		require.Equal(c, pod.ResourceVersion, c.getPod("a").ResourceVersion)
		c.deletePod("a", metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(0))})
		c.podMissing("a")
	},
	"GracePeriodBecomesShorterOnly": func(c *contract) {
		c.createScheduled("a")
		c.deletePod("a", metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(20))})
		first := c.getPod("a")
		require.Equal(c, pointer(int64(20)), first.DeletionGracePeriodSeconds)
		c.deletePod("a", metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(25))})
		require.Equal(c, pointer(int64(20)), c.getPod("a").DeletionGracePeriodSeconds)
		c.deletePod("a", metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(10))})
		shorter := c.getPod("a")
		require.Equal(c, pointer(int64(10)), shorter.DeletionGracePeriodSeconds)
		require.Equal(c, first.DeletionTimestamp.Unix()-10, shorter.DeletionTimestamp.Unix())
	},
	"FinishedPodIsDeletedAtOnce": func(c *contract) {
		pod := c.createScheduled("a")
		pod.Status.Phase = v1.PodSucceeded
		updateStatus(c, c.pods(), pod)
		c.deletePod("a", metav1.DeleteOptions{})
		c.podMissing("a")
	},
	"PodWithFinalizerOutlivesGrace": func(c *contract) {
		pod := c.newPod("a")
		pod.Finalizers = []string{finalizer}
		pod.Spec.NodeName = "node"
		create(c, c.pods(), pod)
		c.deletePod("a", metav1.DeleteOptions{GracePeriodSeconds: pointer(int64(0))})
		pod = c.getPod("a")
		require.NotNil(c, pod.DeletionTimestamp)
		require.Equal(c, pointer(int64(0)), pod.DeletionGracePeriodSeconds)
		pod.Finalizers = nil
		update(c, c.pods(), pod)
		c.podMissing("a")
	},
	"FinalizerRemovedDuringGrace": func(c *contract) {
		pod := c.newPod("a")
		pod.Finalizers = []string{finalizer}
		pod.Spec.NodeName = "node"
		create(c, c.pods(), pod)
		c.deletePod("a", metav1.DeleteOptions{})
		pod = c.getPod("a")
		pod.Finalizers = nil
		update(c, c.pods(), pod)
		require.NotNil(c, c.getPod("a").DeletionTimestamp, "the node has not finished")
	},
}
