package provision

import (
	"cmp"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// rules are the part of the configuration that decisions depend on.
type rules struct {
	names           []string // of the provisioner
	guardsClaims    bool
	guardsVolumes   bool
	volumeFinalizer string
	isStatic        func(*v1.PersistentVolume) bool // Config.StaticVolumes
	provisionPauses pauseRule
	infeasible      pauseRule
	deletePauses    pauseRule
	markWait        time.Duration // for the discard of another controller
}

// guardNames returns the finalizers that keep a volume until its storage is deleted: the one that this
// controller adds, that of an external provisioner, and that of a plugin of the binder.
func (r rules) guardNames() []string {
	return []string{r.volumeFinalizer, VolumeFinalizer, pluginFinalizer}
}

// has reports whether name is one of the provisioner's.
func (r rules) has(name string) bool { return name != noProvisioner && slices.Contains(r.names, name) }

// A role is the part that the controller has for a claim.
type role int

const (
	foreign role = iota // another program handles the claim
	waiting             // the claim is ours; its volume must not be provisioned now
	ready               // the volume of the claim is to be provisioned
)

// roleFor returns the role of the controller for a claim with a class; nil: a missing class.
func (r rules) roleFor(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) role {
	switch {
	case claim == nil, !r.has(provisionerOf(claim)):
		return foreign
	case class == nil:
		return waiting
	case !r.has(class.Provisioner):
		return foreign
	case claim.Spec.VolumeName != "", claim.DeletionTimestamp != nil:
		return waiting
	case storageclass.WaitsForConsumer(class) && selectedNode(claim) == "":
		return waiting
	}
	return ready
}

// provisionerOf returns the provisioner that the binder requests for a claim, or "".
func provisionerOf(claim *v1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[ProvisionerAnnotation]; ok {
		return name
	}
	return claim.Annotations[BetaProvisionerAnnotation]
}

func selectedNode(claim *v1.PersistentVolumeClaim) string {
	return claim.Annotations[SelectedNodeAnnotation]
}

// owns reports whether the provisioner is responsible for a volume: it, or a provisioner that it
// replaces, has created the volume, or the volume is a static one: of the CSI driver of its name, or by
// Config.StaticVolumes.
func (r rules) owns(pv *v1.PersistentVolume) bool {
	driver := ""
	if pv.Spec.CSI != nil {
		driver = pv.Spec.CSI.Driver
	}
	name := cmp.Or(pv.Annotations[MigratedToAnnotation], pv.Annotations[ProvisionedByAnnotation], driver)
	return r.has(name) || name == "" && r.isStatic != nil && r.isStatic(pv)
}

// belongsTo reports whether a volume is reserved for a claim, or bound to it.
func belongsTo(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}
