package provision

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds of data sources from which provisioners fill volumes. Objects of all other kinds are served by volume
// populators, which provision an empty volume for a claim of their own, and move it to the claim with the source.
var (
	claimKind    = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	snapshotKind = schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}
)

// sourceOf returns the kind of the data source of a claim. ok is false for a claim of an empty volume.
func sourceOf(claim *v1.PersistentVolumeClaim) (kind schema.GroupKind, ok bool) {
	var group *string
	if ref := claim.Spec.DataSourceRef; ref != nil {
		group, kind.Kind = ref.APIGroup, ref.Kind
	} else if ref := claim.Spec.DataSource; ref != nil {
		group, kind.Kind = ref.APIGroup, ref.Kind
	} else {
		return kind, false
	}
	if group != nil {
		kind.Group = *group
	}
	return kind, true
}

func (c *Controller) supportsSource(ctx context.Context, kind schema.GroupKind) bool {
	sources, ok := c.config.Provisioner.(volume.SourceProvisioner)
	return ok && sources.SupportsSource(ctx, kind)
}

// isOfPopulator reports whether a volume populator provides the volume of a claim.
func (c *Controller) isOfPopulator(ctx context.Context, claim *v1.PersistentVolumeClaim) bool {
	kind, ok := sourceOf(claim)
	return ok && kind != claimKind && kind != snapshotKind && !c.supportsSource(ctx, kind)
}

// checkSource returns an error for a claim whose volume the Provisioner would leave empty.
func (c *Controller) checkSource(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	kind, ok := sourceOf(claim)
	if !ok || c.supportsSource(ctx, kind) {
		return nil
	}
	return fmt.Errorf("%s does not fill volumes from a %s: %w", c.config.Name, brief.Name(kind.String()), volume.ErrInfeasible)
}

// A mountOptioner is a Provisioner that knows whether its volumes are mounted with the options of their class.
type mountOptioner interface{ supportsMountOptions() bool }

// checkMountOptions returns an error for a class with options with which the volume is never mounted.
func (c *Controller) checkMountOptions(o Options) error {
	able, ok := c.config.Provisioner.(mountOptioner)
	if !ok || len(o.StorageClass.MountOptions) == 0 || able.supportsMountOptions() {
		return nil
	}
	return fmt.Errorf("storage class %q has mount options, which volumes of %s do not support: %w", o.StorageClass.Name, c.config.Name, volume.ErrInfeasible)
}
