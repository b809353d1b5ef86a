package provision

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that a [Controller] uses. An [api.Cluster] is one.
type Cluster interface {
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
	api.StorageClassesGetter
	api.VolumeAttributesClassesGetter
	api.VolumeAttachmentsGetter
	api.PodsGetter
	api.NodesGetter
}

// Config configures a [Controller]. Name, Provisioner and Cluster are required; the zero value of
// every other field selects its default. Functions are called concurrently and must not block.
type Config struct {
	// Name is the name of the provisioner in classes, and in annotations of claims and volumes.
	Name string
	// AdditionalNames are further names of the provisioner, such as one before a renaming.
	// Provisioner gets their classes and volumes, too; the plugins of packages nfs and local ignore
	// those of other names than their own.
	AdditionalNames []string
	Provisioner     Provisioner
	Cluster         Cluster

	// Claims, Volumes and Classes are caches of the embedder, which runs them. Each must contain all
	// objects of its kind. Nil: the controller builds and runs one.
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]
	Classes *api.Cache[*storagev1.StorageClass]
	// Resync is the period at which the caches of the controller deliver all objects again, for a
	// Qualifier and a DeletionGuard whose results change. 0: never.
	Resync time.Duration

	// Qualifier reports whether this controller handles a claim that names its provisioner. The
	// controllers that share a provisioner's name, such as one for each node, divide the claims by
	// it. The result for a claim must stay the same while its selected node does. Nil: all claims.
	Qualifier func(context.Context, *v1.PersistentVolumeClaim) bool
	// DeletionGuard reports whether the storage of a released volume may be deleted. Nil: always.
	DeletionGuard func(context.Context, *v1.PersistentVolume) bool
	// VolumeName returns the name of the volume of a claim. It must depend on the namespace, the name
	// and the UID of the claim alone, differ for any two claims, and never change: by this name
	// a later run finds the storage of an earlier one. Nil: pvc-UID.
	VolumeName func(*v1.PersistentVolumeClaim) string

	// UnguardedClaims omits the ClaimFinalizer: a claim then costs one call to the API server, the creation of
	// its volume, instead of three. Storage is lost if a claim is deleted during its Provision and the program
	// ends before Provision returns. A discard still adds the finalizer.
	UnguardedClaims bool
	// UnguardedVolumes omits the VolumeFinalizer and removes it from volumes that have it. Storage
	// is then lost if a user deletes a volume before its claim.
	UnguardedVolumes bool

	// VolumeFinalizer is the finalizer of volumes in place of the constant of this name, for a program that
	// continues another one's work: a qualified name with a domain. The controller removes the constant, and
	// kubernetes.io/pv-controller of a binder's plugins, as well from the volumes that it deletes or no
	// longer guards. "": the constant.
	VolumeFinalizer string
	// StaticVolumes reports whether this controller deletes the storage of a volume without an
	// annotation of its provisioner. It must not block. Nil: that of volumes of the CSI driver Name.
	StaticVolumes func(*v1.PersistentVolume) bool

	// Calls is the number of calls of the Provisioner at the same time that the storage accepts.
	// While more than half of the calls fail, the controller makes fewer. 0: 128.
	Calls int
	// Timeout limits each call of the Provisioner, and the reads that confirm a deletion. 0: no limit.
	Timeout time.Duration
	// Backoff is the pause after the first failure of a claim or a volume; the pause doubles with
	// each further failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// InfeasibleBackoff is the pause after an infeasible request. 0: 5 minutes.
	InfeasibleBackoff time.Duration
	// ProvisionThreshold and DeleteThreshold are the numbers of failures after which a claim or a
	// volume is retried only when it changes, or its class. A claim for which storage may exist is
	// always retried. 0: no limit.
	ProvisionThreshold, DeleteThreshold int

	// Events receives events about claims and volumes: each success, and each failure whose text
	// differs from the last one. Nil: discarded.
	Events func(api.Event)
	// Metrics receives the metrics whose names this package has. Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures, and on the level Debug the calls of the Provisioner. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultCalls             = 128
	defaultBackoff           = 500 * time.Millisecond
	defaultMaxBackoff        = 5 * time.Minute
	defaultInfeasibleBackoff = 5 * time.Minute
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Name == "":
		return fmt.Errorf("provision: %w", field.Required(at.Child("Name"), "classes and claims name the provisioner"))
	case c.Name == noProvisioner:
		return fmt.Errorf("provision: %w", field.Invalid(at.Child("Name"), c.Name, "means that no provisioner exists"))
	case c.Provisioner == nil:
		return fmt.Errorf("provision: %w", field.Required(at.Child("Provisioner"), "creates the storage"))
	case c.Cluster == nil:
		return fmt.Errorf("provision: %w", field.Required(at.Child("Cluster"), "has the claims and the volumes"))
	}
	if wrong := validation.IsQualifiedName(c.VolumeFinalizer); c.VolumeFinalizer != "" && (len(wrong) > 0 || !strings.Contains(c.VolumeFinalizer, "/")) {
		return fmt.Errorf("provision: %w", field.Invalid(at.Child("VolumeFinalizer"), c.VolumeFinalizer, "must be a qualified name with a domain"))
	}
	for i, name := range c.AdditionalNames {
		if name == "" || name == noProvisioner {
			return fmt.Errorf("provision: %w", field.Invalid(at.Child("AdditionalNames").Index(i), name, "must be the name of a provisioner"))
		}
	}
	if gone, ok := c.Provisioner.(goneNodes); ok {
		if err := gone.check(); err != nil {
			return err
		}
	}
	return c.checkNumbers(at)
}

func (c *Config) checkNumbers(at *field.Path) error {
	return settings.NotNegative("provision",
		settings.Of("Calls", c.Calls), settings.Of("ProvisionThreshold", c.ProvisionThreshold), settings.Of("DeleteThreshold", c.DeleteThreshold),
		settings.Of("Resync", c.Resync), settings.Of("Timeout", c.Timeout), settings.Of("Backoff", c.Backoff),
		settings.Of("MaxBackoff", c.MaxBackoff), settings.Of("InfeasibleBackoff", c.InfeasibleBackoff),
	)
}

// names returns the names of the provisioner, the first one first.
func (c *Config) names() []string { return append([]string{c.Name}, c.AdditionalNames...) }

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.AdditionalNames = slices.Clone(c.AdditionalNames)
	c.VolumeFinalizer = cmp.Or(c.VolumeFinalizer, VolumeFinalizer)
	c.Calls = cmp.Or(c.Calls, defaultCalls)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBackoff = max(c.Backoff, cmp.Or(c.MaxBackoff, defaultMaxBackoff))
	c.InfeasibleBackoff = cmp.Or(c.InfeasibleBackoff, defaultInfeasibleBackoff)
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
	if c.VolumeName == nil {
		c.VolumeName = func(claim *v1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }
	}
	if c.Qualifier == nil {
		c.Qualifier = func(context.Context, *v1.PersistentVolumeClaim) bool { return true }
	}
	if c.DeletionGuard == nil {
		c.DeletionGuard = func(context.Context, *v1.PersistentVolume) bool { return true }
	}
}
