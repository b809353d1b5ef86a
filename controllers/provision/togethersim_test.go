package provision_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTogether runs a provisioner with the binder and the protection, each in a process of its own.
//
// Steps: claims come and go; users delete volumes, before and after they are bound, and remove their references; time
// passes; processes crash. Faults: those of an API server.
//
// Forbidden states: the storage of a bound claim is gone. At the end faults stop. Within six hours each claim is bound,
// or Lost as its volume was deleted.
func TestTogether(t *testing.T) {
	simtest.Simulate(t, func(w *simtest.World, _ uint64) {
		s := &together{World: w, storage: plainStorage{names: map[string]bool{}}}
		s.All = append(simtest.OfServer(), simtest.Crashes()...)
		for _, policy := range []v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRetain} {
			class := newClass(strings.ToLower(string(policy)))
			class.ReclaimPolicy = &policy
			_, err := s.Cluster.StorageClasses().Create(s.Context, class, metav1.CreateOptions{})
			s.Must(err)
		}
		s.start()
		if s.Play(30+s.IntN(40), s.step, func() {}) {
			s.calmDown()
		}
	})
}

type together struct {
	*simtest.World
	storage plainStorage
}

// A plainStorage has no faults.
type plainStorage struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *plainStorage) Provision(_ context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[o.PVName] = true
	return &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: "/" + o.PVName},
	}}}, nil
}

func (s *plainStorage) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, pv.Name)
	return nil
}

func (s *together) start() {
	log := func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) }
	s.Start(simtest.Program{Identity: "provisioner", Prepare: func() simtest.Main {
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			return simtest.Run(provision.New(provision.Config{Name: driver, Provisioner: &s.storage, Cluster: cluster, Events: log}))(ctx)
		}
	}})
	s.Start(simtest.Program{Identity: "binder", Prepare: func() simtest.Main {
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			return simtest.Run(bind.New(bind.Config{Cluster: cluster, Events: log}))(ctx)
		}
	}})
	s.Start(simtest.Program{Identity: "protection", Prepare: func() simtest.Main {
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			return simtest.Run(protect.New(protect.Config{Cluster: cluster, Events: log}))(ctx)
		}
	}})
}

func (s *together) step() {
	switch n := s.IntN(100); {
	case n < 25:
		s.createClaim()
		if s.IntN(3) == 0 {
			time.Sleep(time.Duration(s.IntN(300)) * time.Millisecond)
			s.changeVolume()
		}
	case n < 33:
		if claim, ok := simtest.One(s.Rand, s.Claims()); ok {
			s.Log("delete %s", claim.Name)
			s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
		}
	case n < 50:
		s.changeVolume()
	case n < 55:
		s.Restart()
	case n < 65:
		s.Disturb()
	case n < 75:
		s.Recover()
	default:
		s.Pass()
	}
}

func (s *together) createClaim() {
	claim := newClaim(fmt.Sprint("claim-", s.IntN(6)), []string{"delete", "retain"}[s.IntN(2)])
	delete(claim.Annotations, provision.ProvisionerAnnotation)
	if _, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, claim, metav1.CreateOptions{}); err == nil {
		s.Log("create %s, class %s", claim.Name, *claim.Spec.StorageClassName)
	}
}

// changeVolume deletes a volume, or removes its reference.
func (s *together) changeVolume() {
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	if s.IntN(2) == 0 {
		s.Log("delete %s, %s", pv.Name, pv.Status.Phase)
		s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
		return
	}
	pv.Spec.ClaimRef = nil
	s.Log("remove the reference of %s, %s", pv.Name, pv.Status.Phase)
	_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
	s.Tolerate(err)
}

func (s *together) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	for range 36 {
		s.RestartCrashed()
		synctest.Wait()
		time.Sleep(10 * time.Minute)
	}
	synctest.Wait()
	names := map[string]bool{}
	for _, pv := range s.Volumes() {
		names[pv.Name] = true
	}
	for _, claim := range s.Claims() {
		if claim.DeletionTimestamp == nil && claim.Status.Phase == v1.ClaimPending && !names["pvc-"+string(claim.UID)] {
			s.Fail("claim %s, UID %s, is Pending", claim.Name, claim.UID)
		}
		if claim.DeletionTimestamp != nil {
			s.Fail("claim %s, UID %s, is left: %v", claim.Name, claim.UID, claim.Finalizers)
		}
	}
}
