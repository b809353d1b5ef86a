package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A nodeStatus is the newest known state of the node, by the watch and by the results of own
// writes, and the write of volumesInUse that may still take effect.
//
// The controller first removes a volume from volumesAttached, then reads volumesInUse, then
// detaches. So the node may use an attached volume if one state of the node, with no later state
// known and no removing write on its way, has the volume in both lists: a controller that was about
// to detach the volume would have removed it before that state, or reads volumesInUse after it.
//
//	(no write) --plan--> in flight --result--> (no write)
//	in flight --open outcome--> in flight, sent again --the node has a newer version--> (no write)
//
// A write with an open outcome stays in flight if the API server refuses a later call of it.
//
// Each write carries the version of the node that it replaces, so that a delayed one conflicts.
type nodeStatus struct {
	node    *v1.Node  // nil: not known, or missing
	deleted types.UID // of the last deleted node: late states do not restore it
	write   *statusWrite
}

// A statusWrite is a write of volumesInUse to a version of the node.
type statusWrite struct {
	uid     types.UID
	version string
	names   []v1.UniqueVolumeName
	isOpen  bool // a call has failed, and may have taken effect or may do so later
}

// observe records a change that the watch has delivered.
func (s *nodeStatus) observe(change api.Change[*v1.Node]) {
	if change.New != nil {
		s.keepNewest(change.New)
		return
	}
	s.deleted = change.Old.UID
	if s.node != nil && s.node.UID == s.deleted {
		s.node = nil
	}
}

// record records the result of a call.
func (s *nodeStatus) record(node *v1.Node) {
	node.ManagedFields = nil // as in the watch, to save memory
	s.keepNewest(node)
}

// recordMissing records that the API server does not have the node, unless the watch has delivered
// another state during the call.
func (s *nodeStatus) recordMissing(before *v1.Node) {
	if s.node == before {
		s.node = nil
	}
}

// keepNewest keeps a state that is not older than the known one. A deleted node does not come back.
func (s *nodeStatus) keepNewest(node *v1.Node) {
	if s.deleted != "" && node.UID == s.deleted {
		return
	}
	if s.node == nil || versionOf(node) >= versionOf(s.node) {
		s.node = node
	}
}

// versionOf returns the resourceVersion of the node as a number; 0: not a number.
func versionOf(node *v1.Node) uint64 {
	version, err := strconv.ParseUint(node.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// plan returns the write that has to be sent, and makes it the write in flight; nil: none. A write
// with an open outcome is sent again until the node has another version: its effect is visible
// then, or it can no longer take effect.
func (s *nodeStatus) plan(names []v1.UniqueVolumeName, complete bool) *statusWrite {
	if s.write != nil && (s.node == nil || s.node.UID != s.write.uid || s.node.ResourceVersion != s.write.version) {
		s.write = nil
	}
	if s.write == nil && s.node != nil && complete && !slices.Equal(names, s.node.Status.VolumesInUse) {
		s.write = &statusWrite{uid: s.node.UID, version: s.node.ResourceVersion, names: names}
	}
	return s.write
}

// recordFailure records that a call of the write in flight has failed. A refused write never takes
// effect, unless the outcome of an earlier call is open: then a conflict may be the effect of that call.
func (s *nodeStatus) recordFailure(isRefused bool) {
	if isRefused && !s.write.isOpen {
		s.write = nil
	} else {
		s.write.isOpen = true
	}
}

// reported returns the volumes that the status names, and names after the write in flight.
func (s *nodeStatus) reported() (names []v1.UniqueVolumeName) {
	if s.node == nil {
		return nil
	}
	for _, name := range s.node.Status.VolumesInUse {
		if s.isReported(name) {
			names = append(names, name)
		}
	}
	return names
}

func (s *nodeStatus) isReported(name v1.UniqueVolumeName) bool {
	return slices.Contains(s.node.Status.VolumesInUse, name) && (s.write == nil || slices.Contains(s.write.names, name))
}

// findAttached returns the entry of volumesAttached for a volume.
func (s *nodeStatus) findAttached(name v1.UniqueVolumeName) (entry v1.AttachedVolume, ok bool) {
	i := slices.IndexFunc(s.node.Status.VolumesAttached, func(v v1.AttachedVolume) bool { return v.Name == name })
	if i < 0 {
		return v1.AttachedVolume{}, false
	}
	return s.node.Status.VolumesAttached[i], true
}

// managedAnnotation marks a node whose volumes a controller attaches.
const managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// Conditions that Attach waits for.
var (
	errNoNode      = errors.New("the Node object has not been read, or does not exist")
	errNotReported = errors.New("node.status.volumesInUse does not name the volume yet")
	errNotAttached = errors.New("node.status.volumesAttached does not name the volume yet")
	errNotManaged  = errors.New(`node.status.volumesAttached does not name the volume, and the node has no annotation ` +
		managedAnnotation + `: "true", without which no controller attaches volumes to it`)
)

// devicePath returns the device path of an attached volume, or the condition that is missing, or a
// *field.Error for an invalid path.
func (s *nodeStatus) devicePath(name v1.UniqueVolumeName) (path string, missing error) {
	if s.node == nil {
		return "", errNoNode
	}
	entry, ok := s.findAttached(name)
	switch {
	case !s.isReported(name):
		return "", errNotReported
	case !ok && s.node.Annotations[managedAnnotation] != "true":
		return "", errNotManaged
	case !ok:
		return "", errNotAttached
	}
	return entry.DevicePath, checkDevicePath(entry.DevicePath)
}

// checkDevicePath returns an error for a device path that no plugin and no system call can use. An
// empty path and a path that is not absolute are for the plugin, which gives a meaning to both.
func checkDevicePath(path string) error {
	const most = 4095 // PATH_MAX without the end of the text
	if len(path) <= most && utf8.ValidString(path) && oneline.Of(path) == path {
		return nil
	}
	return invalidDevicePath(path, fmt.Sprintf("must be printable text of at most %d bytes", most))
}

func invalidDevicePath(path, rule string) error {
	at := field.NewPath("node", "status", "volumesAttached").Child("devicePath")
	return field.Invalid(at, telemetry.Text(brief.Name(path)), rule)
}

// patch returns the JSON merge patch of the write.
func (w *statusWrite) patch() ([]byte, error) {
	names := w.names
	if names == nil {
		names = []v1.UniqueVolumeName{}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.version},
		"status":   map[string]any{"volumesInUse": names},
	})
}
