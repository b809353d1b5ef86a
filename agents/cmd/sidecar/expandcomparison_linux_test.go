package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/internal/kubeserver"
)

// TestKubeExpandSituations compares the expansions with those of csi-resizer, the program of external-resizer.
func TestKubeExpandSituations(t *testing.T) {
	comparison[*expandScene]{
		peer: kubeserver.Resizer, situations: expandSituations, interruptions: expandInterruptions, differences: expandDifferences,
		open: openExpandScenes, probe: func(c *expandScene) { c.disk(); c.requests("9Gi") }, sign: "VolumeResizeSuccessful",
	}.run(t)
}

// openExpandScenes creates the class of all claims, and serves the driver.
func openExpandScenes(a *arena) func(name string) *expandScene {
	driver := newGrowingDriver()
	a.serve(driver)
	isExpandable := true
	_, err := a.admin.StorageV1().StorageClasses().Create(a.ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Provisioner: "other.example.com", AllowVolumeExpansion: &isExpandable,
	}, metav1.CreateOptions{})
	require.NoError(a, err)
	return func(name string) *expandScene {
		c := &expandScene{driver: driver}
		c.scene = a.newScene(name, c.lines)
		return c
	}
}

// lines returns the states of the claim and the volume, the sizes that the driver has received, and the reasons of
// events. The resizer annotation is left out: external-resizer has none for CSI volumes.
func (c *expandScene) lines() (lines []string) {
	var events []string
	now := c.snapshot()
	for _, claim := range now.claims {
		if claim.Namespace == c.name {
			lines = append(lines, claimText(&claim))
		}
	}
	for _, pv := range now.volumes {
		if pv.Name == c.name {
			lines = append(lines, fmt.Sprintf("volume: has %s %v", pv.Spec.Capacity.Storage(), pv.Annotations))
		}
	}
	lines = append(lines, fmt.Sprintf("driver: asked for %v", c.driver.sizesOf(c.name)))
	for _, event := range now.events {
		if event.Namespace == c.name {
			events = append(events, fmt.Sprintf("event of %s: %s %s", event.InvolvedObject.Name, event.Type, event.Reason))
		}
	}
	slices.Sort(events)
	return append(lines, slices.Compact(events)...)
}

// claimText returns the state of a claim.
func claimText(claim *v1.PersistentVolumeClaim) string {
	var conditions, annotations []string
	for _, condition := range claim.Status.Conditions {
		conditions = append(conditions, string(condition.Type))
	}
	slices.Sort(conditions)
	for name, value := range claim.Annotations {
		if name != expand.ResizerAnnotation {
			annotations = append(annotations, name+"="+value)
		}
	}
	slices.Sort(annotations)
	return fmt.Sprintf("claim: requests %s, has %s, allocated %s %v %v %v", claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage(),
		claim.Status.AllocatedResources.Storage(), claim.Status.AllocatedResourceStatuses[v1.ResourceStorage], conditions, annotations)
}
