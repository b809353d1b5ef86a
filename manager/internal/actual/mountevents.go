package actual

import (
	"strings"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/mount"
	"k8s.io/apimachinery/pkg/types"
)

// indexMounts replaces the mount of a place in the index.
func (w *World) indexMounts(before, now *Volume, at naming.Place) {
	old, was := before.ExpectedMount(at)
	mnt, is := now.ExpectedMount(at)
	if was == is && old.ID == mnt.ID && old.Path == mnt.Path {
		return
	}
	if was {
		w.Mounts.drop(at, old.ID, old.Path)
	}
	if is {
		w.Mounts.add(at, mnt.ID, mnt.Path)
	}
}

// AffectedPlaces returns the places whose mounts a mount event may have hidden, moved or
// removed. With all, any place may be affected.
func (w *World) AffectedPlaces(c mount.MountChange) (places []naming.Place, all bool) {
	add := func(set placeSet, isHidden func(ExpectedMount) bool) {
		for at := range set.Keys() {
			if mnt, ok := w.Volumes.Get(at.Volume).ExpectedMount(at); ok && isHidden(mnt) {
				places = append(places, at)
			}
		}
	}
	any := func(ExpectedMount) bool { return true }
	add(w.Mounts.byID.Get(c.ID), func(mnt ExpectedMount) bool { return mnt.Path != c.Target })
	add(w.Mounts.byID.Get(0), any)
	if c.Parent != 0 {
		add(w.Mounts.byID.Get(c.Parent), any)
	}
	if c.Target == "" {
		return places, false
	}
	add(w.Mounts.at.Get(c.Target), func(mnt ExpectedMount) bool { return mnt.ID != c.ID })
	for name := range strings.SplitSeq(c.Target, "/") {
		for _, e := range w.Dirs.Of(types.UID(name)) {
			at := naming.Place{Volume: e.Volume, Key: naming.PodKey{Pod: types.UID(name), Name: e.Name}}
			mnt, ok := w.Volumes.Get(e.Volume).ExpectedMount(at)
			if ok && mnt.ID != c.ID && (mnt.Path == c.Target || strings.HasPrefix(mnt.Path, c.Target+"/")) {
				places = append(places, at)
			}
		}
	}
	return places, w.Mounts.Above.Get(c.Target) > 0
}
