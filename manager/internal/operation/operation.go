package operation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
)

// An Operation is a step from the actual state of the world towards the desired one.
type Operation struct {
	Verb   Verb
	Volume v1.UniqueVolumeName
	Pod    naming.PodKey // of TearDown and SetUp
}

// Compare orders operations by verb, then by volume and pod.
func (o Operation) Compare(p Operation) int {
	return cmp.Or(cmp.Compare(o.Verb, p.Verb), strings.Compare(string(o.Volume), string(p.Volume)), o.Pod.Compare(p.Pod))
}

// String returns the verb, the pod and the volume.
func (o Operation) String() string {
	return strings.TrimSpace(fmt.Sprint(strings.ReplaceAll(o.Verb.String(), " ", "-"), " ", o.Pod.Pod)) + " " + string(o.Volume)
}

// Opposite returns the operation that undoes this one, or that this one undoes. A success of
// one ends the backoff of the other.
func (o Operation) Opposite() Operation {
	for _, pair := range [][2]Verb{{Attach, Detach}, {MountDevice, UnmountDevice}, {SetUp, TearDown}} {
		switch o.Verb {
		case pair[0]:
			o.Verb = pair[1]
			return o
		case pair[1]:
			o.Verb = pair[0]
			return o
		}
	}
	return o
}
