package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expandComparison compares the controllers that report claims whose volumes other programs expand. The test
// binds the claims.
var expandComparison = comparison{
	controllers: []string{expander},
	situations:  expandSituations, interrupted: expandInterruptions, differences: expandDifferences, least: 16,
	prepare: func(c *scene) {
		c.class("own", "driver.example.com", func(class *storagev1.StorageClass) {
			class.AllowVolumeExpansion = new(bool)
			*class.AllowVolumeExpansion = true
		})
	},
	probe: func(c *scene) { c.disk("pv"); c.grows("pv", "9Gi") }, sign: "ExternalExpanding",
	describe: (*scene).describeExpansion,
	quiet:    5 * time.Second,
	waits:    true,
}

// TestKubeSituationsOfExpansion compares the claims, the volumes and the events. The expansions by CSI drivers are
// compared with external-resizer's in agents/cmd/sidecar.
func TestKubeSituationsOfExpansion(t *testing.T) { expandComparison.run(t) }

// describeExpansion returns the sizes of the claims and the volumes, and the events.
func (c *scene) describeExpansion() (lines []string) {
	for _, claim := range c.claims() {
		var conditions []string
		for _, condition := range claim.Status.Conditions {
			conditions = append(conditions, string(condition.Type))
		}
		slices.Sort(conditions)
		lines = append(lines, fmt.Sprintf("claim %s: %s requests %s, has %s, allocated %s %v conditions=%v %s", claim.Name, phaseOf(claim.DeletionTimestamp),
			claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage(), claim.Status.AllocatedResources.Storage(),
			claim.Status.AllocatedResourceStatuses, conditions, metaOf(&claim)))
	}
	for _, pv := range c.volumes() {
		lines = append(lines, fmt.Sprintf("volume %s: has %s %s", pv.Name, pv.Spec.Capacity.Storage(), metaOf(&pv)))
	}
	return append(lines, c.events()...)
}

// grows makes a claim request a size.
func (c *scene) grows(name, size string) { c.editClaim(name, requests(size)) }

// expandSituations are steps of users, by name.
var expandSituations = map[string]func(*scene){
	"request grows":          func(c *scene) { c.disk("pv"); c.settle(); c.grows("pv", "9Gi") },
	"request grows twice":    func(c *scene) { c.disk("pv"); c.settle(); c.grows("pv", "9Gi"); c.settle(); c.grows("pv", "10Gi") },
	"request is reduced":     func(c *scene) { c.disk("pv"); c.settle(); c.grows("pv", "9Gi"); c.settle(); c.grows("pv", "6Gi") },
	"request stays":          func(c *scene) { c.disk("pv") },
	"volume of an export":    func(c *scene) { c.disk("pv", onExport); c.settle(); c.grows("pv", "9Gi") },
	"volume on the host":     func(c *scene) { c.disk("pv", onHost); c.settle(); c.grows("pv", "9Gi") },
	"block volume":           func(c *scene) { c.disk("pv", isBlock); c.settle(); c.grows("pv", "9Gi") },
	"volume is large enough": func(c *scene) { c.disk("pv", has("9Gi")); c.settle(); c.grows("pv", "9Gi") },
	"volume of another claim": func(c *scene) {
		c.disk("pv", c.refersTo("pv", "gone"))
		c.settle()
		c.grows("pv", "9Gi")
	},
	"volume is lost": func(c *scene) { c.disk("pv"); c.settle(); c.loseVolume("pv"); c.grows("pv", "9Gi") },
	"claim is deleted": func(c *scene) {
		c.disk("pv")
		c.editClaim("pv", func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = []string{"example.com/keeps"} })
		c.deleteClaim("pv")
		c.settle()
		c.grows("pv", "9Gi")
	},
	"another program reports progress": func(c *scene) {
		c.disk("pv")
		c.settle()
		c.grows("pv", "9Gi")
		c.settle()
		c.editVolume("pv", has("9Gi"))
		c.editVolume("pv", noted("volume.alpha.kubernetes.io/pre-resize-capacity", "5Gi"))
	},
	"another program has finished": func(c *scene) {
		c.disk("pv")
		c.settle()
		c.grows("pv", "9Gi")
		c.settle()
		c.editVolume("pv", has("9Gi"))
		c.hasCapacity("pv", "9Gi")
	},
	"mark of a node is left": func(c *scene) {
		c.disk("pv", has("9Gi"), noted("volume.alpha.kubernetes.io/pre-resize-capacity", "5Gi"))
		c.settle()
		c.grows("pv", "9Gi")
		c.settle()
		c.hasCapacity("pv", "9Gi")
	},
}

// expandInterruptions are situations in which the controller restarts.
var expandInterruptions = map[string]interruption{
	"request grows meanwhile": {before: func(c *scene) { c.disk("pv") }, stopped: func(c *scene) { c.grows("pv", "9Gi") }},
	"restart":                 {before: func(c *scene) { c.disk("pv"); c.settle(); c.grows("pv", "9Gi") }},
}

// expandDifferences are the situations whose end states differ, with the reasons.
var expandDifferences = map[string]string{}

// hasCapacity reports a capacity in the status of a claim.
func (c *scene) hasCapacity(name, size string) {
	claims := c.clientset.CoreV1().PersistentVolumeClaims(c.namespace)
	edit(c, func() (*v1.PersistentVolumeClaim, error) { return claims.Get(c.ctx, name, metav1.GetOptions{}) }, func(claim *v1.PersistentVolumeClaim) error {
		claim.Status.Capacity = sized(size)
		_, err := claims.UpdateStatus(c.ctx, claim, metav1.UpdateOptions{})
		return err
	})
}
