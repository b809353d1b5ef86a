package csi

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
)

// A driverPolicy has the properties of a CSIDriver object that concern a node, with the defaults of
// the API.
type driverPolicy struct {
	noAttach        bool
	podInfo         bool
	republish       bool
	seLinuxMount    bool
	fsGroup         storagev1.FSGroupPolicy
	modes           []storagev1.VolumeLifecycleMode
	tokens          []storagev1.TokenRequest
	tokensInSecrets bool
}

// policyFrom returns the properties of an object; nil is a driver without one.
func policyFrom(object *storagev1.CSIDriver) driverPolicy {
	policy := driverPolicy{
		fsGroup: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
		modes:   []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}
	if object == nil {
		return policy
	}
	spec := &object.Spec
	policy.noAttach = spec.AttachRequired != nil && !*spec.AttachRequired
	policy.podInfo = isTrue(spec.PodInfoOnMount)
	policy.republish = isTrue(spec.RequiresRepublish)
	policy.seLinuxMount = isTrue(spec.SELinuxMount)
	policy.tokens = spec.TokenRequests
	policy.tokensInSecrets = tokensInSecrets(spec)
	if spec.FSGroupPolicy != nil && *spec.FSGroupPolicy != "" {
		policy.fsGroup = *spec.FSGroupPolicy
	}
	if len(spec.VolumeLifecycleModes) > 0 {
		policy.modes = spec.VolumeLifecycleModes
	}
	return policy
}

func isTrue(b *bool) bool { return b != nil && *b }

// tokensInSecrets returns the field serviceAccountTokenInSecrets, by its name: the release of the API
// that this module requires lacks the field, and a program may link a newer release.
func tokensInSecrets(spec any) bool {
	f := reflect.ValueOf(spec).Elem().FieldByName("ServiceAccountTokenInSecrets")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*bool]() {
		return false
	}
	return isTrue(f.Interface().(*bool))
}

// checkMode returns a transient error if the driver does not offer volumes of the mode: the object
// may be changed, and may be written after the first pod.
func (d driverPolicy) checkMode(driver string, mode storagev1.VolumeLifecycleMode) error {
	if slices.Contains(d.modes, mode) {
		return nil
	}
	return volume.AsTransient(fmt.Errorf("driver %s has no volumes of the lifecycle mode %s, only of %q", driver, mode, d.modes))
}

// objects has the last policies that have been read, by driver, for methods that must not wait.
type objects struct{ known sync.Map }

// last returns the policy of the last read.
func (o *objects) last(driver string) (policy driverPolicy, known bool) {
	value, known := o.known.Load(driver)
	if !known {
		return policyFrom(nil), false
	}
	return value.(driverPolicy), true
}

// policyOf reads the object of a driver. An error is transient.
func (p *Plugin) policyOf(ctx context.Context, driver string) (driverPolicy, error) {
	policy := policyFrom(nil)
	if p.config.Objects != nil {
		object, err := p.config.Objects.GetCSIDriver(ctx, driver)
		switch {
		case err == nil:
			policy = policyFrom(object)
		case !volume.IsNotFound(err):
			return policy, util.Transient(fmt.Errorf("read CSIDriver %s: %w", driver, err))
		}
	}
	p.objects.known.Store(driver, policy)
	return policy, nil
}
