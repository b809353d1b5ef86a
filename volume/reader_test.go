package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsNotFound(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nil":       {nil, false},
		"file":      {fmt.Errorf("claim: %w", fs.ErrNotExist), true},
		"client":    {apierrors.NewNotFound(claims, "data"), true},
		"wrapped":   {fmt.Errorf("claim: %w", apierrors.NewNotFound(claims, "data")), true},
		"forbidden": {apierrors.NewForbidden(claims, "data", errors.New("no rule")), false},
		"deadline":  {context.DeadlineExceeded, false},
	} {
		require.Equal(t, test.want, volume.IsNotFound(test.err), name)
	}
}

// claimMap is a reader of claims in memory, without volumes.
type claimMap map[string]*v1.PersistentVolumeClaim

func (m claimMap) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if claim, ok := m[namespace+"/"+name]; ok {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s/%s: %w", namespace, name, fs.ErrNotExist)
}

func (m claimMap) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return nil, fmt.Errorf("persistent volume %s: %w", name, fs.ErrNotExist)
}

func ExampleClaimReader() {
	var reader volume.ClaimReader = claimMap{"default/data": {Spec: v1.PersistentVolumeClaimSpec{VolumeName: "disk"}}}
	claim, _ := reader.GetPersistentVolumeClaim(context.Background(), "default", "data")
	_, err := reader.GetPersistentVolume(context.Background(), claim.Spec.VolumeName)
	fmt.Println(err)
	fmt.Println("missing:", volume.IsNotFound(err))
	// Output:
	// persistent volume disk: file does not exist
	// missing: true
}
