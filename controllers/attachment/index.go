package attachment

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An index finds the VolumeAttachments of the driver. It has also those that calls alone have shown, as a watch
// is late. The zero value is empty.
type index struct {
	mu      sync.Mutex
	of      map[api.Key]entry
	volumes keySets // by the names of the PersistentVolumes
	nodes   keySets // by the names of the nodes
	handles keySets // by the recorded handles
}

// An entry is a VolumeAttachment in an index.
type entry struct {
	location
	uid     types.UID
	version uint64
}

// A location is the values under which a VolumeAttachment is found; "" is none.
type location struct{ volume, node, handle string }

func locationOf(attachment *storagev1.VolumeAttachment) location {
	return location{volumeName(attachment), attachment.Spec.NodeName, recordedTarget(attachment).handle}
}

// volumeName returns the name of the PersistentVolume of a VolumeAttachment, or "" of an inline volume spec.
func volumeName(attachment *storagev1.VolumeAttachment) string {
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}
	return ""
}

// set adds a VolumeAttachment, or replaces an older one of its name.
func (i *index) set(attachment *storagev1.VolumeAttachment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := api.KeyOf(attachment)
	version, _ := strconv.ParseUint(attachment.ResourceVersion, 10, 64)
	before, ok := i.of[key]
	if ok && before.version > version {
		return
	}
	next := entry{locationOf(attachment), attachment.UID, version}
	if i.of == nil {
		i.of = map[api.Key]entry{}
	}
	i.of[key] = next
	if ok && before.location == next.location {
		return
	}
	i.drop(key, before.location)
	i.volumes.add(next.volume, key)
	i.nodes.add(next.node, key)
	i.handles.add(next.handle, key)
}

// remove removes a VolumeAttachment that has ended. A later one of its name stays.
func (i *index) remove(key api.Key, ended types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if before, ok := i.of[key]; ok && before.uid == ended {
		delete(i.of, key)
		i.drop(key, before.location)
	}
}

// drop requires i.mu.
func (i *index) drop(key api.Key, at location) {
	i.volumes.remove(at.volume, key)
	i.nodes.remove(at.node, key)
	i.handles.remove(at.handle, key)
}

// ofVolume returns the VolumeAttachments of a PersistentVolume, with their UIDs.
func (i *index) ofVolume(name string) map[api.Key]types.UID {
	i.mu.Lock()
	defer i.mu.Unlock()
	found := make(map[api.Key]types.UID, len(i.volumes[name]))
	for key := range i.volumes[name] {
		found[key] = i.of[key].uid
	}
	return found
}

// ofNode returns the VolumeAttachments of a node.
func (i *index) ofNode(name string) []api.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.nodes[name]))
}

// near returns the VolumeAttachments that have one of the values of a location.
func (i *index) near(at location) []api.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := map[api.Key]bool{}
	maps.Copy(all, i.volumes[at.volume])
	maps.Copy(all, i.nodes[at.node])
	maps.Copy(all, i.handles[at.handle])
	return slices.Collect(maps.Keys(all))
}

// keySets are sets of keys by a value. The value "" has no set.
type keySets map[string]map[api.Key]bool

func (s *keySets) add(value string, key api.Key) {
	if value == "" {
		return
	}
	if *s == nil {
		*s = keySets{}
	}
	if (*s)[value] == nil {
		(*s)[value] = map[api.Key]bool{}
	}
	(*s)[value][key] = true
}

func (s keySets) remove(value string, key api.Key) {
	delete(s[value], key)
	if len(s[value]) == 0 {
		delete(s, value)
	}
}
