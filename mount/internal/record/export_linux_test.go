package record

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Known returns the remembered kinds.
func (c *Kinds) Known() map[uint64]uint64 { return c.known }

func TestStructureSizes(t *testing.T) {
	require.EqualValues(t, 512, unsafe.Sizeof(statmountAnswer{}))
	require.EqualValues(t, 24, unsafe.Sizeof(statmountRequest{}))
}
