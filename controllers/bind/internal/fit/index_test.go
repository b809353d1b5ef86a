package fit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	rwo = v1.ReadWriteOnce
	rox = v1.ReadOnlyMany
	rwx = v1.ReadWriteMany
)

func newVolume(name, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.PersistentVolumeSpec{AccessModes: modes, Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		Status:     v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func newClaim(name, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: v1.VolumeResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
		}},
	}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// reserve returns the name of the volume that the index chooses, or "".
func reserve(x *fit.Index, claim *v1.PersistentVolumeClaim) string {
	if pv := x.Reserve(claim); pv != nil {
		return pv.Name
	}
	return ""
}

func TestReserve(t *testing.T) {
	block, class := v1.PersistentVolumeBlock, "fast"
	referring := func(pv *v1.PersistentVolume) *v1.PersistentVolume {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "other"}
		return pv
	}
	phase := func(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase) *v1.PersistentVolume {
		pv.Status.Phase = phase
		return pv
	}
	volumeWith := func(change func(*v1.PersistentVolume)) *v1.PersistentVolume {
		pv := newVolume("a", "1Gi", rwo)
		change(pv)
		return pv
	}
	claimWith := func(change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
		claim := newClaim("c", "1Gi", rwo)
		change(claim)
		return claim
	}
	one := []*v1.PersistentVolume{newVolume("a", "1Gi", rwo)}
	huge := resource.MustParse("1e999999999")
	tests := map[string]struct {
		volumes []*v1.PersistentVolume
		claim   *v1.PersistentVolumeClaim
		want    string
	}{
		"no volume":                          {nil, newClaim("c", "1Gi", rwo), ""},
		"equal size":                         {one, newClaim("c", "1Gi", rwo), "a"},
		"too small":                          {one, newClaim("c", "1025Mi", rwo), ""},
		"larger by less than a byte":         {one, newClaim("c", "1073741824001m", rwo), ""},
		"the smallest":                       {[]*v1.PersistentVolume{newVolume("a", "3Gi", rwo), newVolume("b", "2Gi", rwo), newVolume("c", "1Gi", rwo)}, newClaim("c", "1500Mi", rwo), "b"},
		"the first by name":                  {[]*v1.PersistentVolume{newVolume("b", "1Gi", rwo), newVolume("a", "1024Mi", rwo)}, newClaim("c", "1Gi", rwo), "a"},
		"more access modes":                  {[]*v1.PersistentVolume{newVolume("a", "1Gi", rwo, rwx)}, newClaim("c", "1Gi", rwo), "a"},
		"other access modes":                 {one, newClaim("c", "1Gi", rwx), ""},
		"part of the access modes":           {one, newClaim("c", "1Gi", rwo, rox), ""},
		"fewest access modes, then size":     {[]*v1.PersistentVolume{newVolume("a", "1Gi", rwo, rox), newVolume("b", "9Gi", rwo)}, newClaim("c", "1Gi", rwo), "b"},
		"fewest access modes that are large": {[]*v1.PersistentVolume{newVolume("a", "1Gi", rwo), newVolume("b", "9Gi", rwo, rox)}, newClaim("c", "2Gi", rwo), "b"},
		"unknown access mode":                {one, newClaim("c", "1Gi", "Other"), ""},
		"no access mode":                     {one, newClaim("c", "1Gi"), "a"},
		"volume of a class":                  {[]*v1.PersistentVolume{volumeWith(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = class })}, newClaim("c", "1Gi", rwo), ""},
		"claim of a class":                   {one, claimWith(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }), ""},
		"class in an annotation": {[]*v1.PersistentVolume{volumeWith(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = class })},
			claimWith(func(c *v1.PersistentVolumeClaim) {
				c.Annotations = map[string]string{v1.BetaStorageClassAnnotation: class}
			}), "a"},
		"attributes class of the claim": {one, claimWith(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &class }), ""},
		"block claim":                   {one, claimWith(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }), ""},
		"block volume":                  {[]*v1.PersistentVolume{volumeWith(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })}, newClaim("c", "1Gi", rwo), ""},
		"selector": {[]*v1.PersistentVolume{newVolume("a", "1Gi", rwo), volumeWith(func(pv *v1.PersistentVolume) { pv.Name, pv.Labels = "b", map[string]string{"k": "v"} })},
			claimWith(func(c *v1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}
			}), "b"},
		"malformed selector": {one, claimWith(func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
		}), ""},
		"malformed size": {one, claimWith(func(c *v1.PersistentVolumeClaim) { c.Spec.Resources.Requests[v1.ResourceStorage] = huge }), ""},
		"malformed capacity": {[]*v1.PersistentVolume{volumeWith(func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = huge })},
			newClaim("c", "1Gi", rwo), ""},
		"referring to another claim": {[]*v1.PersistentVolume{referring(newVolume("a", "1Gi", rwo))}, newClaim("c", "1Gi", rwo), ""},
		"new volume":                 {[]*v1.PersistentVolume{phase(newVolume("a", "1Gi", rwo), v1.VolumePending)}, newClaim("c", "1Gi", rwo), "a"},
		"bound volume":               {[]*v1.PersistentVolume{phase(newVolume("a", "1Gi", rwo), v1.VolumeBound)}, newClaim("c", "1Gi", rwo), ""},
		"released volume":            {[]*v1.PersistentVolume{phase(newVolume("a", "1Gi", rwo), v1.VolumeReleased)}, newClaim("c", "1Gi", rwo), ""},
		"failed volume":              {[]*v1.PersistentVolume{phase(newVolume("a", "1Gi", rwo), v1.VolumeFailed)}, newClaim("c", "1Gi", rwo), ""},
		"volume in deletion":         {[]*v1.PersistentVolume{volumeWith(func(pv *v1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} })}, newClaim("c", "1Gi", rwo), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var x fit.Index
			for _, pv := range test.volumes {
				x.Set(pv)
			}
			require.Equal(t, test.want, reserve(&x, test.claim))
		})
	}
}

// TestReservation: a volume is reserved for one claim until it is released, changed or deleted.
func TestReservation(t *testing.T) {
	var x fit.Index
	pv := newVolume("a", "1Gi", rwo)
	require.True(t, x.Set(pv))
	require.Equal(t, "a", reserve(&x, newClaim("one", "1Gi", rwo)))
	require.Empty(t, reserve(&x, newClaim("two", "1Gi", rwo)))
	require.Equal(t, "a", reserve(&x, newClaim("one", "1Gi", rwo)), "the reservation stays")
	require.False(t, x.Set(pv.DeepCopy()), "an update leaves the reservation")
	require.Empty(t, reserve(&x, newClaim("two", "1Gi", rwo)))
	require.Equal(t, "a", x.Release("one"))
	require.Empty(t, x.Release("one"))
	require.Equal(t, "a", reserve(&x, newClaim("two", "1Gi", rwo)))

	bound := pv.DeepCopy()
	bound.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "two"}
	require.False(t, x.Set(bound))
	require.Empty(t, x.Release("two"), "the API has the reservation now")
	require.Equal(t, []string{"a"}, x.Referring(key("two")))
	require.True(t, x.Set(pv))
	require.Empty(t, x.Referring(key("two")))
	require.Equal(t, "a", reserve(&x, newClaim("three", "1Gi", rwo)))
	x.Delete("a")
	require.Empty(t, x.Release("three"))
	free, reserved, _ := x.Len()
	require.Zero(t, free+reserved)
}

// TestWake: a free volume wakes one waiting claim that it fits, the one with the largest request.
func TestWake(t *testing.T) {
	var x fit.Index
	for _, claim := range []*v1.PersistentVolumeClaim{
		newClaim("small", "1Gi", rwo), newClaim("large", "3Gi", rwo), newClaim("huge", "9Gi", rwo), newClaim("many", "1Gi", rwx),
	} {
		require.Nil(t, x.Reserve(claim))
	}
	_, ok := x.Wake("a")
	require.False(t, ok, "no such volume")
	require.True(t, x.Set(newVolume("a", "4Gi", rwo)))
	woken, ok := x.Wake("a")
	require.True(t, ok)
	require.Equal(t, key("large"), woken)
	woken, ok = x.Wake("a")
	require.True(t, ok)
	require.Equal(t, key("small"), woken, "a claim is woken once")
	_, ok = x.Wake("a")
	require.False(t, ok)
	require.Equal(t, "a", reserve(&x, newClaim("small", "1Gi", rwo)))
	require.Nil(t, x.Reserve(newClaim("large", "3Gi", rwo)))
	_, ok = x.Wake("a")
	require.False(t, ok, "the volume is reserved")
	x.Release("small")
	x.StopWaiting(key("large"))
	_, ok = x.Wake("a")
	require.False(t, ok)
}

// A world is an Index, and the same state as lists.
type world struct {
	*rand.Rand
	index    fit.Index
	volumes  map[string]*v1.PersistentVolume
	reserved map[types.UID]string
	waiting  map[types.NamespacedName]*v1.PersistentVolumeClaim
}

func newWorld(seed uint64) *world {
	return &world{Rand: rand.New(rand.NewPCG(seed, 1)), volumes: map[string]*v1.PersistentVolume{}, reserved: map[types.UID]string{},
		waiting: map[types.NamespacedName]*v1.PersistentVolumeClaim{}}
}

var allModes = []v1.PersistentVolumeAccessMode{rwo, rox, rwx, v1.ReadWriteOncePod}

// anyModes returns access modes, mostly one.
func (w *world) anyModes() (modes []v1.PersistentVolumeAccessMode) {
	modes = append(modes, allModes[w.IntN(4)])
	for w.IntN(3) == 0 {
		modes = append(modes, allModes[w.IntN(4)])
	}
	return modes
}

func (w *world) anyVolume() *v1.PersistentVolume {
	pv := newVolume(fmt.Sprint("v", w.IntN(12)), fmt.Sprint(1+w.IntN(6), "Gi"), w.anyModes()...)
	pv.Spec.StorageClassName = []string{"", "", "fast"}[w.IntN(3)]
	if w.IntN(3) == 0 {
		pv.Labels = map[string]string{"zone": fmt.Sprint(w.IntN(2))}
	}
	if w.IntN(5) == 0 {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: fmt.Sprint("c", w.IntN(8))}
	}
	pv.Status.Phase = []v1.PersistentVolumePhase{v1.VolumeAvailable, v1.VolumePending, v1.VolumeAvailable, v1.VolumeReleased}[w.IntN(4)]
	return pv
}

func (w *world) anyClaim() *v1.PersistentVolumeClaim {
	claim := newClaim(fmt.Sprint("c", w.IntN(8)), fmt.Sprint(1+w.IntN(6), "Gi"), w.anyModes()...)
	class := []string{"", "", "fast"}[w.IntN(3)]
	claim.Spec.StorageClassName = &class
	if w.IntN(4) == 0 {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": fmt.Sprint(w.IntN(2))}}
	}
	return claim
}

// free reports whether a volume can be chosen.
func (w *world) free(pv *v1.PersistentVolume) bool {
	return pv.Spec.ClaimRef == nil && pv.Status.Phase != v1.VolumeReleased
}

func (w *world) isHeld(name string) bool {
	for _, held := range w.reserved {
		if held == name {
			return true
		}
	}
	return false
}

// fits reports whether a volume fits a claim.
func fits(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	size, of := claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	if selector := claim.Spec.Selector; selector != nil && pv.Labels["zone"] != selector.MatchLabels["zone"] {
		return false
	}
	return pv.Spec.StorageClassName == *claim.Spec.StorageClassName && of.Cmp(size) >= 0 &&
		!slices.ContainsFunc(claim.Spec.AccessModes, func(m v1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(pv.Spec.AccessModes, m)
		})
}

func countModes(pv *v1.PersistentVolume) int {
	return len(slices.Compact(slices.Sorted(slices.Values(pv.Spec.AccessModes))))
}

// best returns the volumes that a linear search finds best: equal in the number of modes and in size.
func (w *world) best(claim *v1.PersistentVolumeClaim) (names []string) {
	var best *v1.PersistentVolume
	for _, pv := range w.volumes {
		if !w.free(pv) || w.isHeld(pv.Name) || !fits(pv, claim) {
			continue
		}
		order := -1
		if best != nil {
			size, bestSize := pv.Spec.Capacity[v1.ResourceStorage], best.Spec.Capacity[v1.ResourceStorage]
			if order = countModes(pv) - countModes(best); order == 0 && slices.Equal(sortedModes(pv), sortedModes(best)) {
				order = size.Cmp(bestSize)
			}
		}
		if order < 0 {
			best, names = pv, nil
		}
		if order <= 0 {
			names = append(names, pv.Name)
		}
	}
	return names
}

func sortedModes(pv *v1.PersistentVolume) []v1.PersistentVolumeAccessMode {
	return slices.Compact(slices.Sorted(slices.Values(pv.Spec.AccessModes)))
}

// step changes the index and the lists, and compares the results.
func (w *world) step(t *testing.T) {
	switch w.IntN(10) {
	case 0, 1, 2, 3:
		pv := w.anyVolume()
		w.volumes[pv.Name] = pv
		if !w.free(pv) {
			w.drop(pv.Name)
		}
		require.Equal(t, w.free(pv) && !w.isHeld(pv.Name), w.index.Set(pv))
	case 4:
		name := fmt.Sprint("v", w.IntN(12))
		w.index.Delete(name)
		delete(w.volumes, name)
		w.drop(name)
	case 5, 6, 7:
		w.reserve(t, w.anyClaim())
	case 8:
		uid := types.UID(fmt.Sprint("c", w.IntN(8)))
		require.Equal(t, w.reserved[uid], w.index.Release(uid))
		delete(w.reserved, uid)
	case 9:
		w.wake(t, fmt.Sprint("v", w.IntN(12)))
	}
	w.compare(t)
}

// drop ends the reservation of a volume.
func (w *world) drop(name string) {
	for uid, held := range w.reserved {
		if held == name {
			delete(w.reserved, uid)
		}
	}
}

func (w *world) reserve(t *testing.T, claim *v1.PersistentVolumeClaim) {
	got, held := reserve(&w.index, claim), w.reserved[claim.UID]
	delete(w.waiting, key(claim.Name))
	if held != "" {
		require.Equal(t, held, got)
		return
	}
	best := w.best(claim)
	if len(best) == 0 {
		require.Empty(t, got)
		w.waiting[key(claim.Name)] = claim
		return
	}
	require.Contains(t, w.sameRank(best, claim), got)
	w.reserved[claim.UID] = got
}

// sameRank returns the volumes that the order of choice does not tell apart from the best ones but by
// the access modes: sets of equal numbers come in a fixed order.
func (w *world) sameRank(best []string, claim *v1.PersistentVolumeClaim) (names []string) {
	for _, pv := range w.volumes {
		if w.free(pv) && !w.isHeld(pv.Name) && fits(pv, claim) && countModes(pv) == countModes(w.volumes[best[0]]) && w.isSmallest(pv, claim) {
			names = append(names, pv.Name)
		}
	}
	return names
}

// isSmallest reports whether no volume with the same access modes that fits is smaller.
func (w *world) isSmallest(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	size := pv.Spec.Capacity[v1.ResourceStorage]
	for _, other := range w.volumes {
		otherSize := other.Spec.Capacity[v1.ResourceStorage]
		if w.free(other) && !w.isHeld(other.Name) && fits(other, claim) && slices.Equal(sortedModes(pv), sortedModes(other)) && otherSize.Cmp(size) < 0 {
			return false
		}
	}
	return true
}

func (w *world) wake(t *testing.T, name string) {
	claim, ok := w.index.Wake(name)
	pv := w.volumes[name]
	isFree := pv != nil && w.free(pv) && !w.isHeld(name)
	if ok {
		require.True(t, isFree)
		require.Contains(t, w.waiting, claim)
		require.True(t, fits(pv, w.waiting[claim]))
		delete(w.waiting, claim)
		return
	}
	for key, claim := range w.waiting {
		require.False(t, isFree && fits(pv, claim), "claim %s waits for %s", key, name)
	}
}

func (w *world) compare(t *testing.T) {
	free, referring := 0, map[types.NamespacedName][]string{}
	for name, pv := range w.volumes {
		if w.free(pv) && !w.isHeld(name) {
			free++
		}
		if ref := pv.Spec.ClaimRef; ref != nil {
			referring[key(ref.Name)] = append(referring[key(ref.Name)], name)
		}
	}
	gotFree, gotReserved, gotWaiting := w.index.Len()
	require.Equal(t, []int{free, len(w.reserved), len(w.waiting)}, []int{gotFree, gotReserved, gotWaiting})
	for n := range 8 {
		claim := key(fmt.Sprint("c", n))
		slices.Sort(referring[claim])
		require.Equal(t, referring[claim], w.index.Referring(claim))
	}
}

// TestAgainstLinearSearch: after any steps the index chooses as a linear search does.
func TestAgainstLinearSearch(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(seed)
		for range 200 {
			w.step(t)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzAgainstLinearSearch(f *testing.F) {
	f.Add(uint64(1), uint16(10))
	f.Add(uint64(7), uint16(300))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		w := newWorld(seed)
		for range steps % 2000 {
			w.step(t)
		}
	})
}

// TestConcurrentReservations: no volume is chosen twice.
func TestConcurrentReservations(t *testing.T) {
	const claims, workers = 400, 8
	var x fit.Index
	for n := range claims {
		x.Set(newVolume(fmt.Sprint("v", n), "1Gi", rwo))
	}
	var mu sync.Mutex
	chosen := map[string]string{}
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for n := worker; n < claims; n += workers {
				claim := newClaim(fmt.Sprint("c", n), "1Gi", rwo)
				name := reserve(&x, claim)
				mu.Lock()
				other, twice := chosen[name]
				chosen[name] = claim.Name
				mu.Unlock()
				if twice || name == "" {
					t.Errorf("%s and %s receive %q", claim.Name, other, name)
				}
			}
		})
	}
	running.Wait()
	require.Len(t, chosen, claims)
}

// BenchmarkReserve shows the growth of a choice with the number of volumes.
func BenchmarkReserve(b *testing.B) {
	for _, count := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			var x fit.Index
			for n := range count {
				x.Set(newVolume(fmt.Sprint("v", n), fmt.Sprint(1+n%1000, "Mi"), rwo))
			}
			claim := newClaim("c", "500Mi", rwo)
			for b.Loop() {
				x.Reserve(claim)
				x.Release(claim.UID)
			}
		})
	}
}
