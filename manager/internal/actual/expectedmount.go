package actual

import (
	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
)

// An ExpectedMount is a mount that should exist.
type ExpectedMount struct {
	Path   string
	ID     uint64 // 0: not known
	Volume v1.UniqueVolumeName
	Pod    naming.PodKey // empty: the device mount
	Is     *Pod          // actual state of the pod before the check
}

func (mnt ExpectedMount) Place() naming.Place { return naming.Place{Volume: mnt.Volume, Key: mnt.Pod} }
