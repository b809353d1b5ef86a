package reading

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// missing is a source without claims and volumes.
type missing struct{}

func (missing) GetPersistentVolumeClaim(context.Context, string, string) (*v1.PersistentVolumeClaim, error) {
	return nil, fs.ErrNotExist
}

func (missing) GetPersistentVolume(context.Context, string) (*v1.PersistentVolume, error) {
	return nil, fs.ErrNotExist
}

// TestReadAfterSlowRead: after a slow read of an object the next caller continues without a
// result, however quickly the read ends, and the caller after it has the result.
func TestReadAfterSlowRead(t *testing.T) {
	ref, late := VolumeRef("pv"), 0
	r := NewReader(Config{Claims: missing{}, Timeout: time.Hour, Late: func() { late++ }})
	r.slow[ref] = true
	objects := Objects{}
	require.False(t, r.readAll(t.Context(), []Ref{ref}, 1, objects))
	require.ErrorIs(t, objects[ref].err, ErrPending)
	require.Equal(t, 1, late)
	require.Equal(t, []Ref{ref}, r.DrainLate())
	require.Empty(t, r.DrainLate())
	require.True(t, r.readAll(t.Context(), []Ref{ref}, 2, objects), "the read began before generation 2")
	require.ErrorIs(t, objects[ref].err, fs.ErrNotExist)
}

// TestReadPods: each outcome of a read has its place, and a slow read is abandoned.
func TestReadPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure, late, answer := errors.New("no luck"), 0, make(chan struct{})
		r := NewReader(Config{
			Timeout: time.Hour, Spawn: func(work func()) { go work() }, Late: func() { late++ },
			Pod: func(_ context.Context, uid types.UID) (*v1.Pod, error) {
				switch uid {
				case "gone":
					return nil, fs.ErrNotExist
				case "nil":
					return nil, nil
				case "panic":
					panic("no luck")
				case "failed":
					return nil, failure
				case "slow":
					<-answer
				}
				pod := &v1.Pod{}
				if pod.UID = uid; uid == "other" {
					pod.UID = "found"
				}
				return pod, nil
			},
		})
		begin := time.Now()
		pods, failed, isOld := r.ReadPods(t.Context(), []types.UID{"found", "gone", "nil", "panic", "failed", "other", "slow"}, 1)
		require.False(t, isOld)
		require.Less(t, time.Since(begin), 2*time.Second)
		require.Len(t, pods, 2)
		require.Equal(t, types.UID("found"), pods["found"].UID)
		require.Contains(t, pods, types.UID("gone"))
		require.Nil(t, pods["gone"])
		require.Len(t, failed, 4)
		require.ErrorIs(t, failed["failed"], failure)
		require.ErrorIs(t, failed["nil"], errNilObject)
		require.ErrorContains(t, failed["panic"], "panicked: no luck")
		require.ErrorContains(t, failed["other"], `another pod, "found"`)

		close(answer)
		synctest.Wait()
		require.Equal(t, 1, late)
		require.Equal(t, []Ref{PodRef("slow")}, r.DrainLate())
		pods, _, isOld = r.ReadPods(t.Context(), []types.UID{"slow"}, 2)
		require.Equal(t, types.UID("slow"), pods["slow"].UID)
		require.True(t, isOld)
	})
}

// TestListPods: a list with a nil pod, a panic and a timeout are errors.
func TestListPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			pods    func(context.Context) ([]*v1.Pod, error)
			errText string
		}{
			"nil pod": {func(context.Context) ([]*v1.Pod, error) { return []*v1.Pod{nil}, nil }, "the source returned a nil pod"},
			"panic":   {func(context.Context) ([]*v1.Pod, error) { panic("no luck") }, "panicked: no luck"},
			"timeout": {func(ctx context.Context) ([]*v1.Pod, error) { <-ctx.Done(); return nil, ctx.Err() }, "deadline exceeded"},
		} {
			_, err := NewReader(Config{Pods: test.pods, Timeout: time.Minute}).ListPods(t.Context())
			require.ErrorContains(t, err, test.errText, name)
		}
	})
}

// TestDropUnused: the result of an abandoned read is dropped once no pod uses the object.
func TestDropUnused(t *testing.T) {
	ref := VolumeRef("pv")
	r := NewReader(Config{Claims: missing{}, Timeout: time.Hour, Late: func() {}})
	r.slow[ref] = true
	r.readAll(t.Context(), []Ref{ref}, 1, Objects{})
	r.DropUnused(func(Ref) bool { return true })
	require.Len(t, r.pending, 1)
	r.DropUnused(func(Ref) bool { return false })
	require.Empty(t, r.pending)
	require.Empty(t, r.slow)
}

// TestChangeSet: pending changes are merged, and drained once.
func TestChangeSet(t *testing.T) {
	var pending PendingChanges
	first, second := ChangeSet{}, ChangeSet{Everything: true}
	require.True(t, first.IsEmpty())
	first.AddRefs(ClaimRef("ns", "claim"), PodRef("1"), VolumeRef("pv"))
	second.AddPods("1", "2")
	pending.Add(first)
	pending.Add(second)
	require.Equal(t, ChangeSet{
		Everything: true, Pods: map[types.UID]bool{"1": true, "2": true},
		Refs: map[Ref]bool{ClaimRef("ns", "claim"): true, VolumeRef("pv"): true},
	}, pending.Drain())
	last := pending.Drain()
	require.True(t, last.IsEmpty())
}
