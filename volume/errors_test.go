package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestKindOf(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want ErrorKind
	}{
		"none":                   {nil, Success},
		"neither":                {errors.New("no such export"), Final},
		"not supported":          {fmt.Errorf("expand: %w", ErrNotSupported), Final},
		"in another way":         {fmt.Errorf("set up: %w", ErrAlreadyMounted), Final},
		"transient":              {fmt.Errorf("%w: %w", ErrTransient, errors.New("busy")), Transient},
		"uncertain":              {fmt.Errorf("unmount: %w", ErrUncertain), Uncertain},
		"joined":                 {errors.Join(ErrTransient, ErrUncertain), Uncertain},
		"cancelled":              {fmt.Errorf("mount: %w", context.Canceled), Transient},
		"too late":               {context.DeadlineExceeded, Transient},
		"cancelled, not certain": {errors.Join(context.Canceled, ErrUncertain), Uncertain},
		"infeasible":             {fmt.Errorf("expand: %w", ErrInfeasible), Final},
		"precondition":           {fmt.Errorf("expand: %w", ErrFailedPrecondition), Transient},
		"node is full":           {fmt.Errorf("attach: %w", ErrMaxVolumeCountExceeded), Transient},
		"on another node":        {fmt.Errorf("attach: %w", &DanglingAttachError{CurrentNode: "b"}), Transient},
		"on another, uncertain":  {&DanglingAttachError{CurrentNode: "b", Err: ErrUncertain}, Uncertain},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, KindOf(test.err)) })
	}
}

// TestKindIsNotInText: an error with a kind reads as before, and is found by its cause and its
// kind.
func TestKindIsNotInText(t *testing.T) {
	cause := errors.New("no answer")
	err := fmt.Errorf("unmount /data: %w", cause)
	for kind, as := range map[ErrorKind]func(error) error{Transient: AsTransient, Uncertain: AsUncertain} {
		require.NoError(t, as(nil))
		got := as(err)
		require.EqualError(t, got, "unmount /data: no answer")
		require.ErrorIs(t, got, cause)
		require.Equal(t, kind, KindOf(fmt.Errorf("wrapped: %w", got)))
	}
	require.Equal(t, Uncertain, KindOf(AsTransient(AsUncertain(err))))
	require.Equal(t, Uncertain, KindOf(AsUncertain(AsTransient(err))))
}

func TestErrorKindString(t *testing.T) {
	require.Equal(t, "uncertain", Uncertain.String())
	require.Equal(t, "unknown kind of error", ErrorKind(-1).String())
	require.Equal(t, "unknown kind of error", ErrorKind(99).String())
}

// TestCauses: a cause has its own text, without that of its kind, and is no other cause.
func TestCauses(t *testing.T) {
	causes := []error{ErrInfeasible, ErrFailedPrecondition, ErrMaxVolumeCountExceeded}
	for i, cause := range causes {
		require.NotContains(t, cause.Error(), ErrTransient.Error())
		for j, other := range causes {
			require.Equal(t, i == j, errors.Is(fmt.Errorf("wrapped: %w", cause), other))
		}
	}
}

func TestDanglingAttachError(t *testing.T) {
	cause := errors.New("still in use")
	err := fmt.Errorf("attach: %w", &DanglingAttachError{CurrentNode: "node-2", DevicePath: "/dev/x", Err: cause})
	require.EqualError(t, err, `attach: the volume is attached to node "node-2": still in use`)
	require.ErrorIs(t, err, cause)
	var dangling *DanglingAttachError
	require.ErrorAs(t, err, &dangling)
	require.Equal(t, "/dev/x", dangling.DevicePath)
	require.EqualError(t, &DanglingAttachError{CurrentNode: "b"}, `the volume is attached to node "b"`)
	long := &DanglingAttachError{CurrentNode: types.NodeName(strings.Repeat("n", 1<<20))}
	require.Less(t, len(long.Error()), 1000)
}
