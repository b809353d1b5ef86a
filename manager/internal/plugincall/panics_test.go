package plugincall

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// call runs work as a plugin's method.
func call(work func() error) (err error) {
	defer RecoverPanic(&err)
	return work()
}

// TestRecoverPanic: a panic becomes an uncertain error whose stack is in the log only. The panic
// of another goroutine keeps the stack of that goroutine.
func TestRecoverPanic(t *testing.T) {
	for name, test := range map[string]struct {
		panic any
		stack string
	}{
		"in this goroutine":    {"no luck", "plugincall.TestRecoverPanic"},
		"in another goroutine": {&ctxend.Panic{Value: "no luck", Stack: []byte("other stack")}, "other stack"},
	} {
		t.Run(name, func(t *testing.T) {
			err := call(func() error { panic(test.panic) })
			require.EqualError(t, err, "a plugin, or the source, panicked: no luck")
			require.Equal(t, volume.Uncertain, volume.KindOf(err))
			attrs := LogAttrs(fmt.Errorf("set up: %w", err))
			require.Len(t, attrs, 4)
			require.Equal(t, "stack", attrs[2])
			require.Contains(t, attrs[3], test.stack)
		})
	}
}

// TestRecoverPanicKeepsErrors: without a panic the error stays as it is and has no stack.
func TestRecoverPanicKeepsErrors(t *testing.T) {
	failure := errors.New("no luck")
	require.Same(t, failure, call(func() error { return failure }))
	require.NoError(t, call(func() error { return nil }))
	require.Equal(t, []any{"err", failure}, LogAttrs(failure))
}
