package node_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simClass is the class of all claims. It allows expansion.
const simClass = "sim"

func simStorageClass() *storagev1.StorageClass {
	yes := true
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: simClass}, Provisioner: "sim.io/none", AllowVolumeExpansion: &yes}
}

// A simExpansion is the next step of the controller that expands volumes.
type simExpansion int

const (
	simExpanded simExpansion = iota // the controller has finished
	simRequested
	simAllocated
	simGrown
)

// expandClaim does steps in the expansion of a claim, mostly of one that a pod uses: a user changes the
// request, the controller does its next step, or the node's part begins to fail or to succeed.
func (s *simulation) expandClaim() {
	bound := slices.DeleteFunc(slices.Clone(s.claims), func(c *simClaim) bool { return c.volume == "" || c.deleting })
	used := slices.DeleteFunc(slices.Clone(bound), func(c *simClaim) bool { return !s.isInPod(c) })
	if len(used) > 0 && s.IntN(4) > 0 {
		bound = used
	}
	if len(bound) == 0 {
		return
	}
	c := bound[s.IntN(len(bound))]
	for range 1 + s.IntN(4) {
		switch n := s.IntN(12); {
		case n < 3:
			s.hinder(c)
		case c.expansion != simExpanded:
			s.continueExpansion(c, n == 3)
		case n < 5 && c.request > 2:
			s.request(c, c.request-1)
		default:
			c.request++
			s.request(c, c.request)
		}
		s.pause()
	}
}

// isInPod reports whether a pod of the API server that has not finished uses a claim.
func (s *simulation) isInPod(c *simClaim) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool {
		return s.isWanted(p) && slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return s.claimOf(p.Pod, v) == c })
	})
}

// request changes the request of a claim. The API server refuses to lower it to the size in the status.
func (s *simulation) request(c *simClaim, size int64) {
	s.log("claim %s requests %dGi", c.Name, size)
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"%dGi"}}}}`, size)
	_, err := s.cluster.PersistentVolumeClaims(simNamespace).Patch(s.ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		s.must(err)
	}
	c.expansion = simRequested
}

// hinder makes attempts of the node to grow a volume slow, or makes them fail, or ends both.
func (s *simulation) hinder(c *simClaim) {
	refusals := []error{nil, nil, errors.New("final"), volume.AsTransient(errors.New("transient")), volume.AsUncertain(errors.New("uncertain")),
		fmt.Errorf("too large: %w", volume.ErrInfeasible), fmt.Errorf("in use: %w", volume.ErrFailedPrecondition)}
	refusal, delay := refusals[s.IntN(len(refusals))], time.Duration(s.IntN(2)*s.IntN(40))*time.Second
	s.log("expansions of %s end with %v, after %v", c.volume, refusal, delay)
	s.node.setRefusal(c.volume, refusal, delay)
}

func (n *simNode) setRefusal(volume string, refusal error, delay time.Duration) {
	n.storage.Lock()
	defer n.storage.Unlock()
	disk := n.diskOf(volume)
	disk.refusal, disk.delay = refusal, delay
}

// continueExpansion does the next step of the controller: it allocates the requested size, or fails for
// some time, then grows the storage and the volume, then leaves the rest to the node.
func (s *simulation) continueExpansion(c *simClaim, fails bool) {
	switch c.expansion {
	case simRequested:
		c.expansion = simAllocated
		s.updateClaim(c, func(claim *v1.PersistentVolumeClaim) bool {
			size, capacity := claim.Spec.Resources.Requests[v1.ResourceStorage], claim.Status.Capacity[v1.ResourceStorage]
			if c.allocated = 0; size.Cmp(capacity) <= 0 {
				return false
			}
			c.allocated = inGibibytes(size)
			claim.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: size}
			setExpansion(claim, v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimResizing)
			return true
		})
	case simAllocated:
		if fails {
			s.updateClaim(c, func(claim *v1.PersistentVolumeClaim) bool {
				return s.controls(c, claim) && setExpansion(claim, v1.PersistentVolumeClaimControllerResizeInfeasible, v1.PersistentVolumeClaimControllerResizeError)
			})
			return
		}
		c.expansion = simGrown
		s.updateClaim(c, func(claim *v1.PersistentVolumeClaim) bool {
			if s.controls(c, claim) {
				s.grow(c)
			}
			return false
		})
	case simGrown:
		c.expansion = simExpanded
		s.updateClaim(c, func(claim *v1.PersistentVolumeClaim) bool {
			return s.controls(c, claim) && setExpansion(claim, v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimFileSystemResizePending)
		})
	}
}

// controls reports whether the controller expands a claim, and fails if the state says otherwise.
func (s *simulation) controls(c *simClaim, claim *v1.PersistentVolumeClaim) bool {
	if c.allocated == 0 {
		return false
	}
	size := claim.Status.AllocatedResources[v1.ResourceStorage]
	if state := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]; !isControllerState(state) || inGibibytes(size) != c.allocated {
		s.fail("the node has changed the state of claim %s to %q, of %s", c.Name, state, size.String())
	}
	return true
}

// setExpansion sets the state of a claim, and its condition. It returns true.
func setExpansion(claim *v1.PersistentVolumeClaim, state v1.ClaimResourceStatus, condition v1.PersistentVolumeClaimConditionType) bool {
	claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: state}
	claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return true
}

// updateClaim writes the status of a claim if change returns true, on its last version.
func (s *simulation) updateClaim(c *simClaim, change func(*v1.PersistentVolumeClaim) bool) {
	claims := s.cluster.PersistentVolumeClaims(simNamespace)
	for {
		claim, err := claims.Get(s.ctx, c.Name, metav1.GetOptions{})
		if err != nil || !change(claim) {
			s.must(err)
			return
		}
		if _, err = claims.UpdateStatus(s.ctx, claim, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			s.must(err)
			s.log("  claim %s: %s", c.Name, claim.Status.AllocatedResourceStatuses[v1.ResourceStorage])
			return
		}
	}
}

// grow makes the storage of a claim larger, and then its volume.
func (s *simulation) grow(c *simClaim) {
	s.node.storage.Lock()
	disk := s.node.diskOf(c.volume)
	disk.size = max(disk.size, c.allocated)
	size := disk.size
	s.node.storage.Unlock()
	s.log("  %s has %dGi", c.volume, size)
	patch := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":"%dGi"}}}`, size)
	_, err := s.cluster.PersistentVolumes().Patch(s.ctx, c.volume, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}

// endExpansions does all further steps of the controller, and ends the failures of the node.
func (s *simulation) endExpansions() {
	for _, c := range s.claims {
		if c.volume == "" {
			continue
		}
		s.node.setRefusal(c.volume, nil, 0)
		for c.expansion != simExpanded {
			s.continueExpansion(c, false)
		}
	}
}

// expansionDifferences returns the claims of volumes that are up in a pod, and whose expansion has not
// finished.
func (s *simulation) expansionDifferences(up map[string]bool) (all []string) {
	for _, c := range s.claims {
		if !up[c.volume] {
			continue
		}
		claim, err := s.cluster.PersistentVolumeClaims(simNamespace).Get(s.ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			s.must(err)
			continue
		}
		status, disk := claim.Status, s.node.storedDisk(c.volume)
		capacity := status.Capacity[v1.ResourceStorage]
		if disk.fileSystem != disk.size || inGibibytes(capacity) != disk.size || len(status.AllocatedResourceStatuses)+len(status.Conditions) > 0 {
			all = append(all, fmt.Sprintf("claim %s has %s, %v and %v, its volume %d GiB of %d GiB",
				c.Name, capacity.String(), status.AllocatedResourceStatuses, status.Conditions, disk.fileSystem, disk.size))
		}
	}
	return all
}
