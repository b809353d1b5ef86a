package manager

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/manager/internal/reading"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkPopulation compares the desired state that the manager has computed from changes with
// the one computed from all pods and the earlier demands alone.
func (s *simulation) checkPopulation(a populationResult) {
	if a.err != nil || s.source.isFailing {
		return
	}
	l := s.loop
	p := populate.Populator{Claims: simReader{s.source}, Plugins: l.config.Plugins, Node: newNode(l.config), Before: l.want, ExistingIn: l.published().existingVolumes}
	demands := map[types.UID]*desired.Demand{}
	for uid, pod := range s.source.pods {
		if !podspec.IsTerminated(pod) {
			demands[uid] = p.DemandOf(context.Background(), pod)
		}
	}
	all, _ := desired.Population{}.With(demands)
	all.Populated = true
	for _, uid := range podsOfEither(a.want, all) {
		if got, want := a.want.Demands.Get(uid), all.Demands.Get(uid); !isSameSimDemand(got, want) {
			s.fail("pod %s: demand %s, want %s", uid, demandText(got), demandText(want))
		}
	}
	got, want := contentOf(a.want), contentOf(all)
	got.demands, want.demands = nil, nil
	if !reflect.DeepEqual(got, want) {
		s.fail("the population differs from one of all demands")
	}
}

// isSameSimDemand reports whether demands that were computed independently are equal.
func isSameSimDemand(a, b *desired.Demand) bool {
	return a == b || a != nil && b != nil && a.Pod == b.Pod && slices.Equal(a.Refs, b.Refs) &&
		slices.EqualFunc(a.Failed, b.Failed, desired.FailedVolume.IsSame) && reflect.DeepEqual(a.Volumes, b.Volumes)
}

func demandText(d *desired.Demand) (text string) {
	for _, w := range d.VolumesOrNone() {
		text += fmt.Sprintf("%v read-only %v %v, ", w.Place, w.Pod.Args.ReadOnly, w.Pod.Spec.ReadOnly)
	}
	for _, f := range d.FailedOrNone() {
		text += fmt.Sprintf("%s failed: %v %v %v, ", f.Name, f.Err, f.Pending, f.KeepExisting)
	}
	return text + fmt.Sprint(d.RefsOrNone())
}

// A simReader returns the source's current objects, without the manager's source reader.
type simReader struct{ source *simSource }

func (r simReader) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := r.source.GetPersistentVolumeClaim(ctx, namespace, name)
	return claim, reading.AsError(err)
}

func (r simReader) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	pv, err := r.source.GetPersistentVolume(ctx, name)
	return pv, reading.AsError(err)
}
