package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, KindOf(test.err)) })
	}
}

func TestErrorKindString(t *testing.T) {
	require.Equal(t, "uncertain", Uncertain.String())
	require.Equal(t, "unknown kind of error", ErrorKind(-1).String())
	require.Equal(t, "unknown kind of error", ErrorKind(99).String())
}
