package sidecar

import (
	"context"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A SourceError is the error for a claim whose data source cannot be used.
type SourceError struct {
	Kind, Name string // of the data source
	Reason     string

	kind error // volume.ErrInfeasible, or nil for a source that may become usable
}

// Error returns the data source and the reason.
func (e *SourceError) Error() string {
	return fmt.Sprintf("data source %s %s: %s", input.Shorten(e.Kind), input.Quote(e.Name), e.Reason)
}

// Unwrap returns [volume.ErrInfeasible] if the source can never be used.
func (e *SourceError) Unwrap() error { return e.kind }

// A dataSource is the data source of a claim. The zero value is none.
type dataSource struct{ group, kind, namespace, name string }

// dataSourceOf returns the data source of a claim. The API server copies dataSource to dataSourceRef and back
// as far as both can have it.
func dataSourceOf(claim *v1.PersistentVolumeClaim) (s dataSource) {
	group := func(text *string) string {
		if text == nil {
			return ""
		}
		return *text
	}
	if ref := claim.Spec.DataSourceRef; ref != nil {
		s = dataSource{group: group(ref.APIGroup), kind: ref.Kind, namespace: claim.Namespace, name: ref.Name}
		if ref.Namespace != nil && *ref.Namespace != "" {
			s.namespace = *ref.Namespace
		}
	} else if ref := claim.Spec.DataSource; ref != nil {
		s = dataSource{group: group(ref.APIGroup), kind: ref.Kind, namespace: claim.Namespace, name: ref.Name}
	}
	return s
}

func (s dataSource) isClaim() bool    { return s.group == "" && s.kind == "PersistentVolumeClaim" }
func (s dataSource) isSnapshot() bool { return s.group == snapshotGroup && s.kind == "VolumeSnapshot" }

// isForeign reports whether another program, a volume populator, fills the volume of a claim.
func (s dataSource) isForeign() bool { return s != dataSource{} && !s.isClaim() && !s.isSnapshot() }

func (s dataSource) infeasible(reason string) error {
	return &SourceError{Kind: s.kind, Name: s.name, Reason: reason, kind: volume.ErrInfeasible}
}

func (s dataSource) notReady(reason string) error {
	return &SourceError{Kind: s.kind, Name: s.name, Reason: reason}
}

// addSource adds the source of a claim's volume; none for an empty volume.
func (p *provisioner) addSource(ctx context.Context, r *createRequest, o provision.Options) error {
	claim := o.PVC
	s := dataSourceOf(claim)
	switch {
	case s == dataSource{}:
		return nil
	case s.isSnapshot():
		return s.infeasible("snapshots are not supported")
	case s.isForeign():
		return &volume.IgnoredError{Reason: "a volume populator fills the volume of the claim"}
	case s.namespace != claim.Namespace:
		return s.infeasible("must be in the namespace of the claim")
	case !p.driver.capabilities.clone:
		return s.infeasible("the driver does not declare CLONE_VOLUME")
	}
	pv, err := p.sourceVolume(ctx, r, s)
	if err != nil {
		return err
	}
	r.call.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
		Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: pv.Spec.CSI.VolumeHandle},
	}}
	return r.checkClone(s, claim, pv)
}

// sourceVolume returns the volume of the claim that is the source. The volume is the driver's, and bound to
// the claim: a tenant that writes the status of its claims reaches no volume of others. For a copy that may exist the
// source may be on its way out.
func (p *provisioner) sourceVolume(ctx context.Context, r *createRequest, s dataSource) (*v1.PersistentVolume, error) {
	source, err := p.cluster.PersistentVolumeClaims(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, s.notReady("does not exist")
	case err != nil:
		return nil, volume.AsTransient(fmt.Errorf("read claim %s/%s: %w", s.namespace, input.Shorten(s.name), err))
	case source.DeletionTimestamp != nil && !r.mayExist:
		return nil, s.infeasible("is being deleted")
	case source.Status.Phase != v1.ClaimBound && !r.mayExist, source.Spec.VolumeName == "":
		return nil, s.notReady("is not bound")
	}
	pv, err := p.cluster.PersistentVolumes().Get(ctx, source.Spec.VolumeName, metav1.GetOptions{})
	switch ref := (*v1.ObjectReference)(nil); {
	case apierrors.IsNotFound(err):
		return nil, s.notReady("its volume does not exist")
	case err != nil:
		return nil, volume.AsTransient(fmt.Errorf("read volume %s: %w", input.Shorten(source.Spec.VolumeName), err))
	default:
		if ref = pv.Spec.ClaimRef; ref == nil || ref.UID != source.UID || ref.Namespace != source.Namespace || ref.Name != source.Name {
			return nil, s.infeasible("its volume is bound to another claim")
		}
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != p.driver.name {
		return nil, s.infeasible("its volume is not one of driver " + p.driver.name)
	}
	return pv, nil
}

// checkClone returns an error for a claim that cannot have a copy of a volume. A source may have grown since an
// earlier run has copied it.
func (r *createRequest) checkClone(s dataSource, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	if isBlock(claim.Spec.VolumeMode) != isBlock(pv.Spec.VolumeMode) {
		return s.infeasible("has another volume mode")
	}
	if r.mayExist {
		return nil
	}
	asked, has := claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	if err := quantity.CheckOf("capacity", &has); err != nil {
		return s.infeasible(err.Error())
	}
	if err := quantity.CheckOf("request", &asked); err != nil {
		return s.infeasible(err.Error())
	}
	if asked.Cmp(has) < 0 {
		return s.infeasible(fmt.Sprintf("has %s, and the claim requests %s", has.String(), asked.String()))
	}
	return nil
}
