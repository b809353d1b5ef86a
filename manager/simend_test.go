package manager

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// calmDown ends all faults and lets everything end: the world has to become as desired,
// and nothing more to be done.
func (s *simulation) calmDown() {
	s.log("faults end")
	s.calm = true
	s.source.fails = false
	clear(s.source.failing)
	clear(s.world.dead)
	clear(s.world.garbled)
	s.world.resetKernel()
	s.removeForeign()
	for _, vol := range simVolumes {
		s.removeUsers(vol)
	}
	s.loop.populateDue = true
	s.started = 0
	bound := s.bound()
	for round := 0; len(s.failures) == 0; round++ {
		s.report()
		for s.answer != nil {
			s.hear()
		}
		for len(s.pending) > 0 && s.started <= bound {
			j := s.pending[0]
			s.pending = s.pending[1:]
			s.settle(j)
			s.check()
		}
		if s.started > bound {
			s.fail("%d operations to come to rest, and %d should do", s.started, bound)
			return
		}
		if len(s.loop.GetVolumesInUse()) != len(s.reported) {
			continue // the cluster is to hear of it first
		}
		if s.isIdle() {
			break
		}
		if round > 1000 {
			s.fail("it does not come to rest")
			return
		}
		s.now = s.loop.nextDue(s.now)
	}
	s.checkEnd()
	s.checkIdle()
}

// removeForeign: who has mounted something in our place takes it away.
func (s *simulation) removeForeign() {
	for _, info := range s.world.truth().table {
		if info.FSType == "foreign" {
			s.must(s.world.unmount(context.Background(), info.Mountpoint))
		}
	}
	s.tellOfTable()
}

// bound is three times what there may be to do.
func (s *simulation) bound() int {
	pods := len(s.source.pods)
	if s.answer != nil { // it may tell of others, which come up before they go
		pods += len(s.answer.pods)
	}
	known := len(names(s.loop.want.desiredWorld, s.loop.have))
	return 3 * (len(s.pending) + 8*pods + 5*known + len(s.world.truth().dirs) + len(s.world.tree.below("/pods")) + 1)
}

// isIdle reports whether there is nothing to come but the resync and the refresh.
func (s *simulation) isIdle() bool {
	l := s.loop
	return s.answer == nil && !l.populateDue && len(l.later) == 0 && l.populateDelay.until.IsZero() && l.lookDue(s.now).IsZero() &&
		l.nextFree(s.now).IsZero() && !l.unknown[simName]
}

// A simWish is what should be there.
type simWish struct {
	volumes map[string]bool // that a pod wants
	dirs    map[podDir]string
	onePod  map[string]podDir // who has those that are for one
}

func (s *simulation) wish() simWish {
	wish := simWish{map[string]bool{}, map[podDir]string{}, map[string]podDir{}}
	t := s.world.truth()
	for _, uid := range slices.Sorted(maps.Keys(s.source.pods)) {
		if isTerminated(s.source.pods[uid]) {
			continue
		}
		for name := range usesIn(s.source.pods[uid]) {
			wish.volumes[name] = true
			dir := podDir{uid, simName, name}
			if _, taken := wish.onePod[name]; needs(name, "o") && (taken || t.life(dir) == "") {
				continue
			}
			wish.onePod[name] = dir
			if !s.waitsForReaders(name, usesIn(s.source.pods[uid])[name]) {
				wish.dirs[dir] = s.life(name)
			}
		}
	}
	return wish
}

// waitsForReaders: a volume that is mounted to be read stays so while a pod that reads it
// is there.
func (s *simulation) waitsForReaders(vol string, use simUse) bool {
	if use.readOnly || !needs(vol, "d") || s.world.truth().device[vol].Flags&mount.ReadOnly == 0 {
		return false
	}
	for _, pod := range s.source.pods {
		if use, ok := usesIn(pod)[vol]; ok && use.readOnly && !isTerminated(pod) {
			return true
		}
	}
	return false
}

// life is the present one of a volume.
func (s *simulation) life(vol string) string {
	return simLife(simSpec(vol, s.source.lives[vol], 0))
}

// checkEnd compares what is there with what is wanted.
func (s *simulation) checkEnd() {
	wish, t := s.wish(), s.world.truth()
	for _, vol := range simVolumes {
		s.checkVolume(wish, vol)
	}
	up := maps.Clone(t.mapped)
	for dir, info := range t.dirs {
		up[dir] = lifeOf(info)
		if s.isReadOnlyIn(dir) != (info.Flags&mount.ReadOnly != 0) {
			s.fail("%s is %v", simPath(dir), info.Flags)
		}
	}
	if !maps.Equal(up, wish.dirs) {
		s.fail("up: %v, want %v", up, wish.dirs)
	}
	for dir := range wish.dirs {
		if renewed, ok := s.world.renewed[dir]; ok && !renewed {
			s.fail("%s was not set up again", simPath(dir))
		}
	}
	s.checkLeaks(wish)
	s.checkPartsLeft()
}

// checkVolume looks at what is there for all pods.
func (s *simulation) checkVolume(wish simWish, vol string) {
	w, t := s.world, s.world.truth()
	if w.torn[vol] { // nobody knows of it, and so it stays
		return
	}
	if _, ok := wish.onePod[vol]; wish.volumes[vol] && !ok {
		s.fail("no pod has got %s", vol)
	}
	want := func(need string) string {
		if wish.volumes[vol] && needs(vol, need) {
			return s.life(vol)
		}
		return ""
	}
	if w.attached[vol] != want("a") || lifeOf(t.device[vol]) != want("d") || t.staged[vol] != want("b") {
		s.fail("%s: attached %q, want %q; mounted for all %q, want %q; staged %q, want %q", vol,
			w.attached[vol], want("a"), lifeOf(t.device[vol]), want("d"), t.staged[vol], want("b"))
	}
	shared := want("a") != "" || want("d") != "" || want("b") != ""
	if recorded := w.tree[simRecordPaths[vol]] != nil; recorded != shared {
		s.fail("%s: there is a record: %v", vol, recorded)
	}
	if now, should := w.sizes[s.life(vol)], 1+s.source.sizes[vol]; needs(vol, "x") && s.isWrittenTo(vol) && now != should {
		s.fail("%s is of %d, and should be of %d", vol, now, should)
	}
}

// isWrittenTo reports whether a pod wants the volume, not read-only by its claim, and
// can have it.
func (s *simulation) isWrittenTo(vol string) bool {
	for _, pod := range s.source.pods {
		if use, ok := usesIn(pod)[vol]; ok && !isTerminated(pod) && !use.readOnly && !s.waitsForReaders(vol, use) {
			return true
		}
	}
	return false
}

// checkLeaks: nothing is left on disk of what nobody wants.
func (s *simulation) checkLeaks(wish simWish) {
	wanted := map[string]bool{}
	for uid, pod := range s.source.pods {
		wanted[simSubpaths(uid)] = !isTerminated(pod)
		for name := range usesIn(pod) {
			dir := podDir{uid, simName, name}
			wanted[simPath(dir)] = !isTerminated(pod) && !needs(name, "b")
			wanted[simMapPath(dir)] = !isTerminated(pod) && needs(name, "b")
		}
	}
	for vol := range wish.volumes {
		wanted[simDevices+vol] = needs(vol, "d")
		wanted[simMaps+vol] = needs(vol, "b")
	}
	for _, name := range slices.Concat(s.world.tree.below("/pods"), s.world.tree.below(simDevices[:len(simDevices)-1]), s.world.tree.below(simMaps[:len(simMaps)-1])) {
		if !s.leadsTo(name, wanted) {
			s.fail("%s is left", name)
		}
	}
}

// leadsTo reports whether a path is one that is wanted or not ours, on the way to it, or
// in it.
func (s *simulation) leadsTo(name string, wanted map[string]bool) bool {
	for path, is := range wanted {
		if is && (name == path || strings.HasPrefix(path, name+"/") || strings.HasPrefix(name, path+"/")) {
			return true
		}
	}
	vol, ok := strings.CutPrefix(name, simDevices)
	return ok && s.world.torn[vol] || slices.ContainsFunc(s.kept, func(kept string) bool {
		return name == kept || strings.HasPrefix(kept, name+"/")
	}) || slices.ContainsFunc(slices.Collect(maps.Keys(s.world.torn)), func(vol string) bool { return strings.HasPrefix(name, simMaps+vol) })
}

// checkIdle: where all is as desired nothing is done, whoever looks.
func (s *simulation) checkIdle() {
	started, steps := s.started, s.world.steps
	s.loop.lookAtAll()
	s.loop.rescanDue = true
	s.beat()
	for s.answer != nil {
		s.hear()
	}
	if s.started > started || s.world.steps > steps {
		s.fail("something is done though all is as desired")
	}
}
