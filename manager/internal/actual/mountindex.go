package actual

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/naming"
)

// A mountIndex finds the expected mounts that a mount event can affect. A copy is immutable.
//
// A mount in the directory of a pod is found by the pod; the index has the paths of the other
// mounts only.
type mountIndex struct {
	byID persistent.Map[uint64, placeSet] // by mount ID; 0: not known
	at   persistent.Map[string, placeSet] // by path, of mounts outside the directory of their pod
	// Above counts, for each directory above expected mounts, the entries below it; the
	// directories inside a pod's directory are left out.
	Above persistent.Map[string, int]
}

// A placeSet is a set of places; an empty PodKey is the device mount.
type placeSet = persistent.Map[naming.Place, struct{}]

// add adds an expected mount. A directory that Above has already is counted in its parents, so
// that add stops there.
func (x *mountIndex) add(at naming.Place, id uint64, target string) {
	x.byID = x.byID.With(id, x.byID.Get(id).With(at, struct{}{}))
	base, isPods := podBase(at.Key, target)
	if !isPods {
		x.at = x.at.With(target, x.at.Get(target).With(at, struct{}{}))
	}
	for dir := base; ; dir = path.Dir(dir) {
		n := x.Above.Get(dir)
		x.Above = x.Above.With(dir, n+1)
		if n > 0 || dir == path.Dir(dir) {
			return
		}
	}
}

// drop removes an expected mount. A directory that still has an entry below it stays counted in
// its parents, so that drop stops there.
func (x *mountIndex) drop(at naming.Place, id uint64, target string) {
	x.byID = withoutPlace(x.byID, id, at)
	base, isPods := podBase(at.Key, target)
	if !isPods {
		x.at = withoutPlace(x.at, target, at)
	}
	for dir := base; ; dir = path.Dir(dir) {
		n := x.Above.Get(dir) - 1
		if n > 0 {
			x.Above = x.Above.With(dir, n)
			return
		}
		if x.Above = x.Above.Without(dir); dir == path.Dir(dir) {
			return
		}
	}
}

// withoutPlace returns the map with one place of a key less.
func withoutPlace[K comparable](of persistent.Map[K, placeSet], key K, at naming.Place) persistent.Map[K, placeSet] {
	others := of.Get(key).Without(at)
	if others.Len() == 0 {
		return of.Without(key)
	}
	return of.With(key, others)
}

// podBase returns the parent of the pod's directory, or the parent of the path outside the
// pod's directory.
func podBase(key naming.PodKey, target string) (base string, isPods bool) {
	if before, _, ok := strings.Cut(target, "/"+string(key.Pod)+"/"); ok && key.Pod != "" {
		return path.Join("/", before), true
	}
	return path.Dir(target), false
}
