package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/sharedlist"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An inUseError is the reason why the storage of a volume is not deleted yet.
type inUseError struct{ text string }

func (e *inUseError) Error() string { return "the volume is in use: " + e.text }

// A uniqueNamer is a Provisioner that knows the names of its volumes in the status of nodes.
type uniqueNamer interface {
	// uniqueName returns the name of an attachable volume, and "" for other volumes.
	uniqueName(pv *v1.PersistentVolume) (v1.UniqueVolumeName, error)
}

// csiPlugin is the plugin of volumes of CSI drivers in unique names of volumes.
const csiPlugin = "kubernetes.io/csi"

// users reads the users of volumes from the API server: the volume's claim, pods with the claim and, for
// volumes that can be attached, VolumeAttachments and nodes. Concurrent checks share the lists.
type users struct {
	claims      sharedlist.Lists[claimList]
	pods        sharedlist.Lists[[]v1.Pod]
	attachments sharedlist.Lists[[]storagev1.VolumeAttachment]
	nodes       sharedlist.Lists[[]v1.Node]
	namer       uniqueNamer // nil: only the names of CSI volumes are known

	mu      sync.Mutex
	checks  int                  // in progress
	crowded map[string]time.Time // namespaces with too many claims for a list, until a time
}

// A claimList is the claims of a namespace, by their names.
type claimList struct {
	byName map[string]*v1.PersistentVolumeClaim
	isPart bool // the namespace has more claims than mostClaims
}

const (
	// sharingChecks is the number of checks at the same time from which on they share a list of the
	// claims of a namespace: a few checks read their claims one by one.
	sharingChecks = 8
	// mostClaims is the size of the largest list of claims. For a namespace with more claims, the
	// checks of the next crowdedPause read their claims one by one.
	mostClaims   = 500
	crowdedPause = time.Minute
)

// unfinished selects the pods that can use a volume.
const unfinished = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

func newUsers(cluster Cluster, p Provisioner) *users {
	u := &users{crowded: map[string]time.Time{}}
	u.namer, _ = p.(uniqueNamer)
	u.claims.Read = func(ctx context.Context, namespace string) (claimList, error) {
		list, err := cluster.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{Limit: mostClaims})
		if err != nil {
			return claimList{}, fmt.Errorf("list claims: %w", err)
		}
		found := claimList{byName: make(map[string]*v1.PersistentVolumeClaim, len(list.Items)), isPart: list.Continue != ""}
		for i := range list.Items {
			found.byName[list.Items[i].Name] = &list.Items[i]
		}
		return found, nil
	}
	u.pods.Read = func(ctx context.Context, namespace string) ([]v1.Pod, error) {
		list, err := cluster.Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: unfinished})
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		return list.Items, nil
	}
	u.attachments.Read = func(ctx context.Context, _ string) ([]storagev1.VolumeAttachment, error) {
		list, err := cluster.VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list volume attachments: %w", err)
		}
		return list.Items, nil
	}
	u.nodes.Read = func(ctx context.Context, _ string) ([]v1.Node, error) {
		list, err := cluster.Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		return list.Items, nil
	}
	return u
}

// check returns an *inUseError if the API server shows a user of a released volume. claim is the
// present claim of the name in the volume's reference, or nil.
func (u *users) check(ctx context.Context, pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	pods, err := u.pods.Get(ctx, pv.Spec.ClaimRef.Namespace)
	if err != nil {
		return err
	}
	for i := range pods {
		if usesVolume(&pods[i], pv, claim) {
			return &inUseError{fmt.Sprintf("pod %s/%s", pods[i].Namespace, pods[i].Name)}
		}
	}
	name, err := u.uniqueName(pv)
	if err != nil || name == "" {
		return err
	}
	return u.checkNodes(ctx, pv.Name, name)
}

// CheckUnused returns an error if the API server shows a user of a released volume: a pod on a node with the
// claim of the volume's reference, a VolumeAttachment or, for a volume of a plugin that attaches, a node. It
// is for programs that reclaim volumes in another way than a Controller does. claim is the present claim of
// the name in the reference, or nil: the pods that are younger than it use it, and not the volume, as does the pod that
// owns it and is younger than the volume. The
// caller has confirmed that no claim with the UID of the reference exists. CheckUnused changes nothing, and
// returns the error of the API server or of ctx as well.
func CheckUnused(ctx context.Context, cluster Cluster, plugin volume.VolumePlugin, pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	u := newUsers(cluster, &pluginProvisioner{plugin: plugin})
	if err := u.check(ctx, pv, claim); err != nil {
		return err
	}
	return u.checkAttachments(ctx, pv.Name)
}

// begin begins a check. The result ends it.
func (u *users) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.checks++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.checks--
	}
}

// sharesClaims reports whether the checks in a namespace share a list of its claims.
func (u *users) sharesClaims(namespace string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.checks >= sharingChecks && time.Now().After(u.crowded[namespace])
}

// claim returns the claim of a name, or nil, from a list of the API server that many checks share. ok is
// false if the claim has to be read by itself.
func (u *users) claim(ctx context.Context, key api.Key) (claim *v1.PersistentVolumeClaim, ok bool, err error) {
	if !u.sharesClaims(key.Namespace) {
		return nil, false, nil
	}
	list, err := u.claims.Get(ctx, key.Namespace)
	if err != nil {
		return nil, false, err
	}
	if list.isPart {
		u.noteCrowded(key.Namespace)
		return nil, false, nil
	}
	return list.byName[key.Name], true, nil
}

// noteCrowded notes a namespace with too many claims for a list, and drops those whose pause has ended.
func (u *users) noteCrowded(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(u.crowded, func(_ string, until time.Time) bool { return now.After(until) })
	u.crowded[namespace] = now.Add(crowdedPause)
}

// uniqueName returns the name of an attachable volume in the status of nodes, or "".
func (u *users) uniqueName(pv *v1.PersistentVolume) (v1.UniqueVolumeName, error) {
	switch {
	case pv.Spec.CSI != nil:
		return util.GetUniqueVolumeName(csiPlugin, pv.Spec.CSI.Driver+"^"+pv.Spec.CSI.VolumeHandle), nil
	case u.namer != nil:
		return u.namer.uniqueName(pv)
	}
	return "", nil
}

// checkNodes returns an *inUseError if an attachable volume is, or may be, attached to a node.
func (u *users) checkNodes(ctx context.Context, volume string, name v1.UniqueVolumeName) error {
	if err := u.checkAttachments(ctx, volume); err != nil {
		return err
	}
	nodes, err := u.nodes.Get(ctx, "")
	if err != nil {
		return err
	}
	for _, node := range nodes {
		isAttached := slices.ContainsFunc(node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == name })
		if isAttached || slices.Contains(node.Status.VolumesInUse, name) {
			return &inUseError{fmt.Sprintf("attached to node %s", node.Name)}
		}
	}
	return nil
}

// checkAttachments returns an *inUseError if a VolumeAttachment names a volume.
func (u *users) checkAttachments(ctx context.Context, volume string) error {
	attachments, err := u.attachments.Get(ctx, "")
	if err != nil {
		return err
	}
	for _, attachment := range attachments {
		if source := attachment.Spec.Source.PersistentVolumeName; source != nil && *source == volume {
			return &inUseError{fmt.Sprintf("attached to node %s", attachment.Spec.NodeName)}
		}
	}
	return nil
}

// usesVolume reports whether a pod may use a released volume by the name of its claim. claim is the present claim of
// the name, or nil.
func usesVolume(pod *v1.Pod, pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		name := claimindex.NameOf(pod, &v)
		return name != "" && name == pv.Spec.ClaimRef.Name && !isYounger(pod, claim) && !(v.Ephemeral != nil && ownsPresentClaim(pod, pv, claim))
	})
}

// ownsPresentClaim reports whether a pod with an ephemeral volume, which is older than its claim, uses the present
// claim alone: the claim is the pod's, and the pod is younger than the volume, which was provisioned for an earlier
// claim, and so for an earlier pod.
func ownsPresentClaim(pod *v1.Pod, pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	_, isProvisioned := pv.Annotations[ProvisionedByAnnotation]
	return claim != nil && metav1.IsControlledBy(claim, pod) && isProvisioned && pv.CreationTimestamp.Before(&pod.CreationTimestamp)
}

// isYounger reports whether a pod is younger than a claim: it uses this claim, and not an earlier one
// of the same name.
func isYounger(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return claim != nil && claim.CreationTimestamp.Before(&pod.CreationTimestamp)
}
