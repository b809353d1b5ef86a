package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// lookEvery is how often changes of the mount table have us look for volumes that
	// have vanished: our own mounts change it, too.
	lookEvery = 250 * time.Millisecond
	// lookShare is how much less it is looked than not looked, lookPause the longest
	// time in between.
	lookShare = 4
	lookPause = time.Second
	// lookLong is how long a path may take of which a file system has to be asked.
	lookLong = 2 * time.Second
	// watchPause is how long it is waited before a watch that failed is begun again,
	// watchPauses after it has failed many times.
	watchPause, watchPauses = time.Second, time.Minute
)

// watchTable tells the loop of changes of the mount table until ctx ends. A watch that
// fails is begun again, and tells of a change then. Where there is none the resync finds
// what has vanished.
func (m *Manager) watchTable(ctx context.Context) {
	changed := func() {
		m.lookAgain()
		m.poke()
	}
	var pause delay
	for begin := time.Now(); ; begin = time.Now() {
		err := m.watch(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		m.config.Logger.Warn("changes of the mount table are not told; the resync finds them", "err", err)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if time.Since(begin) > watchPauses {
			pause = delay{} // it has worked
		}
		pause = pause.next(watchPause, watchPauses, time.Now())
		sleep(ctx, pause.length)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (m *Manager) hasTableChanged() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tableChanged
}

// lookAgain: any may have vanished.
func (m *Manager) lookAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tableChanged = true
}

// A mountOf is a mount that should be there.
type mountOf struct {
	path   string
	id     uint64 // 0: not known
	volume v1.UniqueVolumeName
	pod    podKey     // empty: the one for all pods
	is     *actualPod // what was known of the pod when it was looked
}

// A sight is what was seen of the mounts that should be there.
type sight struct {
	gone, replaced []mountOf
	looked, unseen []mountOf // unseen: of which it could not be said
	changed        []attemptOf
	took           time.Duration
}

// findVanished looks for mounts that somebody else has unmounted, or put another in the
// place of, while the loop goes on: a server that does not answer may be on the way.
func (l *loop) findVanished(ctx context.Context, now time.Time) {
	if l.looking || !due(l.lookDue(now), now) {
		return
	}
	all, failed := l.toLookAt(now)
	work := func() sight { return l.lookAt(ctx, all, failed) }
	if l.look == nil {
		l.sighted(work(), now)
		return
	}
	l.looking = true
	l.look(work)
}

// isTooSoon is not so where the clock has gone back: no pause is that long.
func (l *loop) isTooSoon(now time.Time) bool {
	left := l.nextLook.Sub(now)
	return left > 0 && left <= lookPause
}

// lookAt asks for each mount, and at each place of what failed, what is there.
func (m *Manager) lookAt(ctx context.Context, all []mountOf, failed []attemptOf) (s sight) {
	s.looked = all
	var each deadline
	defer each.end()
	for _, mnt := range all {
		now, err := m.spotAt(each.in(ctx), mnt.path)
		s.add(mnt, now, err)
	}
	for _, a := range failed {
		if now, err := m.spotAt(each.in(ctx), a.at.path); err == nil && now != a.at {
			s.changed = append(s.changed, a)
		}
	}
	return s
}

// add adds what was seen of a mount.
func (s *sight) add(mnt mountOf, now spot, err error) {
	switch {
	case err != nil:
		s.unseen = append(s.unseen, mnt)
	case !now.mounted:
		s.gone = append(s.gone, mnt)
	case now.mount != mnt.id && mnt.id != 0 && now.mount != 0:
		s.replaced = append(s.replaced, mnt)
	}
}

// A deadline is for many short calls, of which each has at least half of lookLong.
type deadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Time
}

func (d *deadline) in(ctx context.Context) context.Context {
	if time.Until(d.until) < lookLong/2 {
		d.end()
		d.until = time.Now().Add(lookLong)
		d.ctx, d.cancel = context.WithDeadline(ctx, d.until)
	}
	return d.ctx
}

func (d *deadline) end() {
	if d.cancel != nil {
		d.cancel()
	}
}

// mountAt asks what is mounted at a path, and which mount that is; 0 where nobody can
// tell mounts apart.
func (m *Manager) mountAt(ctx context.Context, path string) (mounted bool, id uint64, err error) {
	if identifier, ok := m.config.Mounter.(identifier); ok {
		if id, err = identifier.MountID(ctx, path); !errors.Is(err, errors.ErrUnsupported) {
			return id != 0, id, err
		}
	}
	mounted, err = m.config.Mounter.IsMountPoint(ctx, path)
	return mounted, 0, err
}

// identifier is mount.Identifier.
type identifier interface {
	MountID(ctx context.Context, path string) (uint64, error)
}

// sighted takes in what was seen.
func (l *loop) sighted(s sight, now time.Time) {
	l.looking = false
	l.nextLook = now.Add(max(lookEvery, min(lookShare*s.took, lookPause)))
	l.noteUnseen(s, now)
	l.hasten(s.changed)
	for _, mnt := range s.gone {
		l.noteVanished(mnt, VolumeVanished, "nothing is mounted at %s any more: somebody else has unmounted it")
	}
	for _, mnt := range s.replaced {
		l.noteVanished(mnt, VolumeReplaced, "another mount is at %s: somebody else has mounted it")
	}
}

// shouldBeMounted leaves out volumes that something is being done about: those are looked
// at when it has ended. The caller holds mu.
func (l *loop) shouldBeMounted() []mountOf {
	all := make([]mountOf, 0, len(l.have.volumes))
	for name, v := range l.have.volumes {
		if f := l.flights[name]; f != nil {
			f.lookAfter = f.lookAfter || l.tableChanged || len(l.unseen) > 0
			continue
		}
		if v.device == present && !v.traits.block {
			all = append(all, mountOf{path: v.deviceMountPath, id: v.deviceMount, volume: name})
		}
		for key, pod := range v.pods.all() {
			if pod.state == present && pod.mounted {
				all = append(all, mountOf{pod.path, pod.mount, name, key, pod})
			}
		}
	}
	slices.SortFunc(all, func(a, b mountOf) int { return strings.Compare(a.path, b.path) })
	return all
}

// isStill reports whether no more is known of the mount than when it was looked. The
// caller holds mu.
func (l *loop) isStill(mnt mountOf) bool {
	v := l.have.volumes[mnt.volume]
	switch {
	case v == nil:
		return false
	case mnt.is == nil:
		return v.device == present && v.deviceMount == mnt.id
	}
	return v.pods.get(mnt.pod) == mnt.is
}

// noteVanished: what is there instead nobody knows. A volume that is wanted is set up
// again: its plugin sees whether what is mounted there is what is wanted, and else leaves
// it alone and says so.
func (l *loop) noteVanished(mnt mountOf, reason, message string) {
	l.mu.Lock()
	if f := l.flights[mnt.volume]; f != nil || !l.isStill(mnt) {
		l.tableChanged = l.tableChanged || f == nil
		if f != nil {
			f.lookAfter = true
		}
		l.mu.Unlock()
		return
	}
	v := *l.have.volumes[mnt.volume]
	event := Event{Type: v1.EventTypeWarning, Reason: reason, PodUID: mnt.pod.pod, Unique: mnt.volume, Spec: v.spec, Plugin: v.plugin,
		Message: fmt.Sprintf(message, mnt.path)}
	if mnt.is == nil {
		v.device = uncertain
	} else {
		v.pods = v.pods.with(mnt.pod, mnt.is.as(uncertain))
		event.Pod = l.want.pods[mnt.pod.pod]
	}
	l.have.put(mnt.volume, &v)
	l.dirty[mnt.volume] = true
	l.tell(mnt.pod.pod)
	l.mu.Unlock()
	l.config.Logger.Warn("volume is not mounted as it was", "reason", reason, "volume", short(string(mnt.volume)), "path", mnt.path)
	l.config.Events(event)
}
