package sidecar

import (
	"errors"
	"fmt"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUnsentCreate: whatever code gRPC has for a call that was not sent, the call says nothing about storage.
func TestUnsentCreate(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		err := createError(volume.AsTransient(status.Error(code, "not sent")), true)
		require.Equal(t, volume.Transient, volume.KindOf(err), "%v", code)
		require.NotErrorIs(t, err, volume.ErrReschedule)
		require.NotErrorIs(t, err, volume.ErrInfeasible)
	}
	require.Equal(t, volume.Final, volume.KindOf(createError(fmt.Errorf("refused: %w", errors.New("cause")), false)))
}

// TestOpenRequests: a request is kept for its claim as long as the outcome of its call is open.
func TestOpenRequests(t *testing.T) {
	options := func(claim string) provision.Options {
		return provision.Options{PVName: "pvc-1", PVC: &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(claim)}}}
	}
	request := func(mayExist bool) *createRequest {
		return &createRequest{call: &csipb.CreateVolumeRequest{Name: "pvc-1"}, claim: "a", mayExist: mayExist}
	}
	uncertain := volume.AsUncertain(errors.New("open"))
	different := volume.AsTransient(status.Error(codes.AlreadyExists, "other arguments"))
	for name, c := range map[string]struct {
		mayExist bool
		err      error
		isOpen   bool
	}{
		"uncertain":                   {false, uncertain, true},
		"not sent":                    {false, volume.AsTransient(errors.New("not sent")), true},
		"other arguments":             {false, different, true},
		"other arguments, made again": {true, different, false},
		"not sent, made again":        {true, volume.AsTransient(errors.New("not sent")), true},
		"final":                       {false, errors.New("refused"), false},
		"final, and other arguments in the cause": {false, status.Error(codes.AlreadyExists, "x"), false},
		"success": {false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var open openRequests
			r := request(c.mayExist)
			open.record(r, volume.AsTransient(errors.New("not sent")))
			_, isOpen := open.of(options("a"))
			require.False(t, isOpen, "no call was sent")
			open.record(r, uncertain)
			_, isOpen = open.of(options("b"))
			require.False(t, isOpen, "of another claim with the name")
			open.record(r, c.err)
			kept, isOpen := open.of(options("a"))
			require.Equal(t, c.isOpen, isOpen)
			if isOpen {
				require.Same(t, r, kept)
			}
			open.forget("pvc-1")
			require.Empty(t, open.byName)
		})
	}
}
